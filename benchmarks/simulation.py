"""Simulated conversations beside the time of their model calls: 200 of them, 50 at once, 20 ms a call.

Run with `python benchmarks/simulation.py`; it prints figures with their budget. Both sides are models: async
functions, functions that block, and over HTTP a server of 20 ms that runs beside it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from dokimos import ConversationTrajectory, Experiment, ExperimentResult, evaluator
from dokimos.judges._factory import judge
from dokimos.simulation import Scenario, Simulation

CONVERSATIONS: Final = 200
PARALLELISM: Final = 50
LATENCY: Final = 0.02
TURNS: Final = 5
IDEAL: Final = math.ceil(CONVERSATIONS / PARALLELISM) * TURNS * 2 * LATENCY
BUDGET: Final = 1.3
ROUNDS: Final = 3


@evaluator
def all_turns(outputs: dict[str, Any]) -> bool:
    return outputs["trajectory"].turn_count == TURNS


async def model(prompt: str) -> str:
    await asyncio.sleep(LATENCY)
    return "And then?"


async def application(trajectory: ConversationTrajectory) -> str:
    await asyncio.sleep(LATENCY)
    return "Like this."


def blocking_model(prompt: str) -> str:
    time.sleep(LATENCY)  # a client that blocks is what is simulated
    return "And then?"


def blocking_application(trajectory: ConversationTrajectory) -> str:
    time.sleep(LATENCY)
    return "Like this."


def held(simulation: Simulation, folder: str) -> ExperimentResult:
    """Hold all conversations, each about something else, so that no call is another's."""
    scenarios = [Scenario(description=f"Case {n}").to_example() for n in range(CONVERSATIONS)]
    result = Experiment(scenarios, simulation, all_turns, parallelism=PARALLELISM, run_dir=folder).run()
    if result.pass_rate != 1.0:
        raise SystemExit(f"not all conversations went well: {result.warnings}")
    return result


def walls(simulation: Simulation) -> Iterator[tuple[float, float]]:
    """Yield wall and CPU seconds of each round."""
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            start, cpu = time.perf_counter(), time.process_time()
            held(simulation, folder)
            yield time.perf_counter() - start, time.process_time() - cpu


def report(name: str, simulation: Simulation) -> float:
    """Print the figures of some rounds; return the best wall time as a multiple of the ideal one."""
    rounds = list(walls(simulation))
    wall = min(wall for wall, _ in rounds)
    cpu = min(cpu for _, cpu in rounds) / (CONVERSATIONS * TURNS * 2) * 1000
    shown = ", ".join(f"{wall:.2f}" for wall, _ in rounds)
    print(f"{name:10} {wall:.2f} s = {wall / IDEAL:.2f} x ideal, {cpu:.2f} ms CPU a message ({shown} s)")
    return wall / IDEAL


def bare() -> float:
    """Return the wall time of the same waits in a bare event loop: what this machine can do at best now."""

    async def worker() -> None:
        for _ in range(math.ceil(CONVERSATIONS / PARALLELISM) * TURNS * 2):
            await asyncio.sleep(LATENCY)

    async def all_waits() -> None:
        await asyncio.gather(*(worker() for _ in range(PARALLELISM)))

    start = time.perf_counter()
    asyncio.run(all_waits())
    return time.perf_counter() - start


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """Start the server of the benchmark of judges, which answers after 20 ms."""
    command = [sys.executable, str(Path(__file__).with_name("judged.py")), "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def over_http(url: str) -> Simulation:
    user = judge(f"{url}/v1#scripted")
    assistant = judge(f"{url}/v1#scripted", temperature=0.5)

    async def application(trajectory: ConversationTrajectory) -> str:
        return (await assistant.complete(trajectory.to_text())).text

    return Simulation(application=application, judge=user, max_turns=TURNS)


def main() -> None:
    print(f"{CONVERSATIONS} conversations of {TURNS} turns, {PARALLELISM} at once: ideal {IDEAL:.2f} s")
    floor = min(bare() for _ in range(ROUNDS))
    print(f"bare loop  {floor:.2f} s = {floor / IDEAL:.2f} x ideal")
    ratio = report("async", Simulation(application=application, judge=model, max_turns=TURNS))
    blocking = Simulation(application=blocking_application, judge=blocking_model, max_turns=TURNS)
    report("blocking", blocking)
    with serving() as url:
        report("over HTTP", over_http(url))  # 2,500 calls a second keep one core busy
    print(f"async: {ratio * IDEAL / floor:.2f} x the bare loop (budget {BUDGET})")
    raise SystemExit(0 if ratio * IDEAL <= BUDGET * floor else 1)


if __name__ == "__main__":
    main()

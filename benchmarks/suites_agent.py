"""Suites whose agent is declared: their start beside the bare framework's, and 1,000 cases at once.

Run with `python benchmarks/suites_agent.py`; it prints figures with their budgets. The model is a server that
answers at once. Only CPU time is compared, the best of several rounds that take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

START_BUDGET: Final = 1.2
RUN_BUDGET: Final = 1.5
CONCURRENCY: Final = 64

BARE: Final = """
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
"""
SERVER: Final = """
import asyncio, json
from aiohttp import web

async def answer(request):
    body = json.loads(await request.read())
    message = {"role": "assistant", "content": body["messages"][-1]["content"]}
    usage = {"prompt_tokens": 20, "completion_tokens": 8, "total_tokens": 28}
    return web.json_response({
        "id": "a", "object": "chat.completion", "created": 1, "model": body["model"], "usage": usage,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    })

async def main():
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
SUITE: Final = """
name: benchmark
model: {{provider: openai, name: gpt-4o-mini, base_url: "{url}"}}
instructions: {{inline: Repeat what you are told.}}
evaluations: {{metrics: [{{type: standard, metric: equality}}]}}
test_cases: {cases}
"""
FUNCTION: Final = """
import json

def order_status(order_id: str) -> str:
    return json.dumps({"order": order_id, "status": "sent"})
"""
FUNCTION_TOOL: Final = """
tools:
  - {name: order_status, description: Say where an order is., type: function, file: tools.py,
     function: order_status}
"""


@contextlib.contextmanager
def server() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
    finally:
        process.terminate()
        process.wait()


def suite(folder: Path, url: str, count: int) -> Path:
    cases = [{"input": f"case {n}", "ground_truth": f"case {n}"} for n in range(count)]
    path = folder / f"suite{count}.yaml"
    path.write_text(SUITE.format(url=url, cases=json.dumps(cases)))
    return path


def cpu_of(arguments: list[str], folder: Path) -> float:
    """Return the CPU seconds of a process of its own, which keeps what it compiles as users' ones do."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        arguments, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{arguments} ended with {process.returncode}: {process.stderr.read().decode()}")
    process.stderr.close()
    return usage.ru_utime + usage.ru_stime


def compare_starts(folder: Path, url: str, rounds: int, *, with_function: bool = False) -> float:
    """Compare a whole suite with the bare import of the framework, and of a module with a function of it."""
    path, imports, name = suite(folder, url, 1), BARE, "a whole suite of one case"
    if with_function:
        (folder / "tools.py").write_text(FUNCTION)
        path.write_text(path.read_text() + FUNCTION_TOOL)
        imports, name = f"{BARE}import tools\n", "one with a function as a tool"
    bare, ours = [], []
    for _ in range(rounds):
        bare.append(cpu_of([sys.executable, "-c", imports], folder))
        ours.append(cpu_of([sys.executable, "-m", "dokimos", "test", str(path), "-q"], folder))
    print(f"start: bare import {min(bare):.2f} s of CPU, {name} {min(ours):.2f} s")
    return min(ours) / min(bare)


async def bare_agent(url: str, count: int) -> None:
    """Ask the framework's own agent, as many times and as many at once."""
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=url, api_key="none")
    agent = Agent(OpenAIChatModel("gpt-4o-mini", provider=provider), instructions="Repeat what you are told.")
    waiting = iter(range(count))

    async def worker() -> None:
        for n in waiting:
            result = await agent.run(f"case {n}")
            assert result.output == f"case {n}"

    async with agent:
        await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))


def cpu_seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def compare_runs(folder: Path, url: str, count: int, rounds: int) -> float:
    from dokimos.suites import load_suite

    path = suite(folder, url, count)

    def ours(runs: Path) -> None:
        result = load_suite(path).experiment().run(progress=False, run_dir=runs)
        assert result.pass_rate == 1.0, result.warnings

    os.environ["DOKIMOS_PARALLEL_TEST_CASES"] = str(CONCURRENCY)
    asyncio.run(bare_agent(url, 1))
    ours(folder / "first")
    bare, whole = [], []
    for number in range(rounds):
        bare.append(cpu_seconds(lambda: asyncio.run(bare_agent(url, count))))
        whole.append(cpu_seconds(lambda place=folder / f"runs{number}": ours(place)))
    print(
        f"{count} cases at {CONCURRENCY}: bare agent {min(bare):.2f} s of CPU "
        f"({min(bare) / count * 1000:.1f} ms each), suite with journal and calls on disk {min(whole):.2f} s "
        f"({min(whole) / count * 1000:.1f} ms each)"
    )
    return min(whole) / min(bare)


def told(name: str, ratio: float, budget: float) -> bool:
    print(f"{name}: {ratio:.2f} times (at most {budget}){'' if ratio <= budget else '  OVER'}")
    return ratio <= budget


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with server() as url, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = compare_starts(folder, url, given.rounds)
        start_with_function = compare_starts(folder, url, given.rounds, with_function=True)
        run = compare_runs(folder, url, given.cases, given.rounds)
    within = [
        told("start", start, START_BUDGET),
        told("start with a function", start_with_function, START_BUDGET),
        told("run", run, RUN_BUDGET),
    ]
    return 0 if all(within) else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""Start a server with the runs of the demo in it, its answers as traces, and a review queue.

python examples/server/run.py [--port 8080] [--folder out/server] [--no-wait]

The server keeps its data in the folder. Each start adds a run to each experiment, so there is a trend to see.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from urllib.parse import quote

from traces import queue_for_review, send_traces

from dokimos import Experiment, ExperimentResult
from dokimos.client import push_result

PROJECT = "dokimos demo"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--folder", type=Path, default=Path("out") / "server")
    parser.add_argument("--no-wait", action="store_true", help="stop the server once the runs are there")
    options = parser.parse_args()
    with serve(options.port, options.folder) as (server, address):
        for result in results():
            run = push_result(result, server_url=address, project_name=PROJECT)
            print(f"  {result.pass_rate:>6.1%}  {result.name:<16}  {address}/runs/{run}")
        queue_for_review(address, send_traces(address, PROJECT))
        print(f"\nThe experiments:  {address}/projects/{quote(PROJECT)}")
        print(f"The traces:       {address}/traces")
        print(f"The review queue: {address}/review-queue")
        if not options.no_wait:
            print("Ctrl-C stops the server.", flush=True)
            with contextlib.suppress(KeyboardInterrupt):  # it reaches the server too, which then ends
                server.wait()


@contextlib.contextmanager
def serve(port: int, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the server on this machine alone, and yield its process and its address."""
    command = [sys.executable, "-m", "dokimos", "serve", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen([*command, "--data-dir", str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline().strip()
        if not line:
            sys.exit(process.wait())  # it has said why it cannot start
        print(line)
        yield process, line.split()[3]
    finally:
        process.terminate()
        process.wait()


def results() -> Iterator[ExperimentResult]:
    """Run the demo, and the example of the gate before and after somebody changed its prompt."""
    for experiment in experiments():
        yield experiment.run()
    gate = load_example("regression_gate")
    for bot in (gate.good, gate.chatty):
        yield gate.run(bot)


def experiments() -> list[Experiment]:
    """The recorded answers of the demo, scored anew."""
    demo = load_example("quickstart/run")
    return [
        demo.recorded(
            "function_calling.jsonl",
            demo.call_evaluators,
            name="function calling",
            description="One call each, from the Berkeley function-calling data.",
        ),
        demo.recorded(
            "support_answers.jsonl",
            demo.answer_evaluators,
            name="support answers",
            description="Short answers over a small knowledge base.",
        ),
        demo.judged_answers(),
    ]


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()

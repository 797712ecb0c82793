"""What it costs to turn 10,000 spans into agent traces, in each dialect, from OTLP and from spans.

Run with `python benchmarks/traces.py`. The spans are those of the story that the tests tell in every dialect:
traces of eleven spans, with two turns, parallel calls and the history repeated in every call of a model.
"""

from __future__ import annotations

import argparse
import json
import runpy
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dokimos.traces import (
    Span,
    SpanBatch,
    read_otlp,
    to_agent_traces,
    to_conversations,
    to_examples,
    with_logs,
)

BUDGET_S = 2.0
DIALECTS = ("genai-json", "genai-message-logs", "openinference", "openllmetry-old")
STORY = Path(__file__).parents[1] / "tests" / "data" / "traces" / "story.py"


def cpu_s(work: Callable[[], object], rounds: int = 1) -> float:
    """Return the CPU time of the fastest of some rounds, in seconds."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def exports(dialect: str, spans: int) -> list[bytes]:
    """Return exports of one trace each that have about `spans` spans together."""
    otlp = runpy.run_path(str(STORY), run_name="story")["otlp"]
    size = len(read_otlp(otlp(dialect)).spans)
    return [json.dumps(otlp(dialect, f"{number + 1:032x}")).encode() for number in range(spans // size)]


def parsed(bodies: list[bytes]) -> tuple[Span, ...]:
    batches: list[SpanBatch] = [read_otlp(body) for body in bodies]
    spans = (span for batch in batches for span in batch.spans)
    return with_logs(spans, (record for batch in batches for record in batch.logs))


def main() -> None:
    parser = argparse.ArgumentParser(description="What it costs to turn spans into agent traces.")
    parser.add_argument("--spans", type=int, default=10_000)
    parser.add_argument("--all", action="store_true", help="measure every dialect, not only four")
    options = parser.parse_args()
    dialects = runpy.run_path(str(STORY), run_name="story")["DIALECTS"] if options.all else DIALECTS
    print(f"CPU seconds for {options.spans:,} spans; the budget for spans to traces is {BUDGET_S} for 10,000")
    print(f"{'dialect':24}{'read OTLP':>10}{'to traces':>10}{'of budget':>10}{'to talks':>10}{'to rows':>10}")
    for dialect in dialects:
        bodies = exports(dialect, options.spans)
        spans = parsed(bodies)
        times = [cpu_s(partial(parsed, bodies)), cpu_s(partial(to_agent_traces, spans), 3)]
        times += [cpu_s(partial(work, spans)) for work in (to_conversations, to_examples)]
        share = times[1] / BUDGET_S * 10_000 / options.spans
        print(f"{dialect:24}{times[0]:10.2f}{times[1]:10.2f}{share:10.0%}{times[2]:10.2f}{times[3]:10.2f}")


if __name__ == "__main__":
    main()

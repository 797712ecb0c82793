"""Judged items over HTTP: CPU and wall beside the bare client, and throughput under a rate limit.

Run with `python benchmarks/judged.py`; it prints figures with their budgets. A server of 20 ms is beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

import aiohttp

from dokimos import Dataset, Example, ExperimentResult, Score
from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators._llm.base import JudgedEvaluator
from dokimos.experiment._experiment import Experiment
from dokimos.judges._ask import ask
from dokimos.judges._factory import judge
from dokimos.judges._fencing import fence, fence_rule
from dokimos.judges._reply_schema import schema_of

CONCURRENCY: Final = 64
ITEMS: Final = 1000
LATENCY: Final = 0.02
ROUNDS: Final = 9
CPU_BUDGET: Final = 0.5
RATIO_BUDGET: Final = 1.9
JOURNAL_RATIO_BUDGET: Final = 2.6
"""Of CPU, as all ratios here, for a quiet machine and 64 calls at once: where others use the cores it is a
tenth more, since more code needs more of their caches, and at few calls at once, fewer replies share a sync.
`judged_layers.py` shows where the time goes; no single function has more than a twentieth of it.
"""
RATE: Final = 50
RATE_SECONDS: Final = 25
SETTLED: Final = 10
THROUGHPUT_BUDGET: Final = 0.85
REFUSED_BUDGET: Final = 0.05

ANSWER: Final = json.dumps({"verdict": "yes", "reason": "The answer is right.", "score": 1})
REPLY: Final = json.dumps(
    {
        "model": "scripted",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 180, "completion_tokens": 14},
    }
).encode()


@dataclass
class Verdict:
    """What the judge is asked for."""

    verdict: Literal["yes", "no"]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Right(JudgedEvaluator):
    """Asks once whether an answer is right."""

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        verdict = await ask(self.lm, prompt_for(case.input, case.actual_output), Verdict, sample=sample)
        return Score(float(verdict.verdict == "yes"), verdict.reason)


def prompt_for(question: str, answer: str) -> str:
    return f"Is the answer right?\n{fence_rule()}\n{fence('question', question)}\n{fence('answer', answer)}"


def dataset(count: int) -> Dataset:
    return Dataset([Example.of(f"What is {i} + {i}?", str(2 * i)) for i in range(count)])


async def answer(example: Example) -> str:
    return str(example.inputs["input"]) * 3


def judged(
    url: str, count: int, *, run_dir: Path | None = None, parallelism: int = CONCURRENCY
) -> ExperimentResult:
    """Judge so many items with one call each; with a journal where it is given a folder."""
    evaluator = Right(judge=judge(f"{url}/v1#scripted"), threshold=0.5)
    plan = Experiment(
        name="judged", dataset=dataset(count), task=answer, evaluators=[evaluator], parallelism=parallelism
    )
    result = plan.run(journal=run_dir is not None, run_dir=run_dir)
    if result.pass_rate != 1.0 or result.error_count:
        raise SystemExit(f"not all items passed: {result.pass_rate}, {result.error_count} errors")
    return result


async def bare(url: str, count: int, *, parallelism: int = CONCURRENCY) -> None:
    """Send as many of the same requests with nothing around them."""
    schema = schema_of(Verdict)
    shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    prompts = iter([f"{prompt_for(f'What is {i} + {i}?', str(i))}\n\n{schema}" for i in range(count)])

    async def worker(session: aiohttp.ClientSession) -> None:
        for prompt in prompts:
            body = {
                "model": "scripted",
                "messages": [{"role": "user", "content": prompt}],
                "temperature": 0,
                "response_format": shape,
            }
            async with session.post(f"{url}/v1/chat/completions", json=body) as response:
                json.loads((await response.json())["choices"][0]["message"]["content"])

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(worker(session) for _ in range(parallelism)))


def measured(call: Any) -> tuple[float, float]:
    """Return the milliseconds of CPU per item and the seconds of wall that a call takes."""
    gc.collect()
    gc.freeze()  # what was imported is not to be looked through again on anyone's account
    cpu, wall = time.process_time(), time.perf_counter()
    call()
    return (time.process_time() - cpu) / ITEMS * 1000, time.perf_counter() - wall


def cost(url: str, parallelism: int) -> bool:
    def bare_run() -> None:
        asyncio.run(bare(url, ITEMS, parallelism=parallelism))

    def our_run(run_dir: Path | None = None) -> None:
        judged(url, ITEMS, run_dir=run_dir, parallelism=parallelism)

    judged(url, 100)
    asyncio.run(bare(url, 100))
    rounds = []
    for _ in range(ROUNDS):
        round_ = [measured(our_run), measured(bare_run)]
        with tempfile.TemporaryDirectory() as folder:
            round_.append(measured(lambda: our_run(Path(folder) / "run")))
        rounds.append(round_)
    (ours, walls), (plain, plain_walls), (kept, kept_walls) = (
        zip(*one, strict=True) for one in zip(*rounds, strict=True)
    )
    ratio = median(one / other for one, other in zip(ours, plain, strict=True))
    journal_ratio = median(one / other for one, other in zip(kept, plain, strict=True))
    print(f"CPU per judged item  {min(ours):.3f} ms (median {median(ours):.3f}; budget {CPU_BUDGET} ms)")
    print(
        f"with a journal       {min(kept):.3f} ms; every output, reply and score is on disk before it is used"
    )
    print(
        f"bare aiohttp client  {min(plain):.3f} ms; ratio {ratio:.2f} (budget {RATIO_BUDGET}), "
        f"with a journal {journal_ratio:.2f} (budget {JOURNAL_RATIO_BUDGET})"
    )
    floor = ITEMS / parallelism * LATENCY
    quiet = f"floor {floor:.2f} s, budget {2 * floor:.2f} s when quiet"
    print(
        f"wall                 {min(walls):.2f} s ({quiet}), "
        f"with a journal {min(kept_walls):.2f} s, bare {min(plain_walls):.2f} s"
    )
    is_journal_cheap = journal_ratio <= JOURNAL_RATIO_BUDGET or parallelism != CONCURRENCY
    return min(ours) <= CPU_BUDGET and ratio <= RATIO_BUDGET and is_journal_cheap


def under_a_rate_limit(*, bucket: bool) -> bool:
    """Judge for a while against a server that refuses what is above its rate."""
    options = ("--rate", str(RATE), *(("--bucket",) if bucket else ()))
    with serving(*options) as url:
        start = time.perf_counter()
        judged(url, RATE * RATE_SECONDS)
        wall = time.perf_counter() - start
        served, refused, late, late_refused = asyncio.run(figures_of(url))
    share = served / wall / RATE
    name = "a bucket" if bucket else "a window"
    print(
        f"rate limit, {name}: {share:.0%} of {RATE}/s over {wall:.0f} s (budget {THROUGHPUT_BUDGET:.0%}), ",
        end="",
    )
    print(f"{refused} of {served + refused} refused, {late_refused / max(late, 1):.1%} after {SETTLED} s")
    return share >= THROUGHPUT_BUDGET and late_refused / max(late, 1) <= REFUSED_BUDGET


async def figures_of(url: str) -> list[int]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/figures") as response:
        found: list[int] = await response.json()
        return found


@contextlib.contextmanager
def serving(*options: str) -> Iterator[str]:
    command = [sys.executable, str(Path(__file__)), "--serve", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


class Served(asyncio.Protocol):
    """As little of a server as will do: it must not be what is measured."""

    limit: Limit

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0
        )
        if len(rest) < length:
            return
        self.buffer = rest[length:]
        if head.startswith(b"GET"):
            self.respond(b"200 OK", json.dumps(self.limit.figures()).encode())
            return
        wait = self.limit.refuse_for()
        if wait is None:
            asyncio.get_running_loop().call_later(LATENCY, self.respond, b"200 OK", REPLY)
        else:
            refusal = b'{"error": {"message": "Rate limit reached"}}'
            self.respond(b"429 Too Many Requests", refusal, b"Retry-After: %.3f\r\n" % wait)

    def respond(self, status: bytes, body: bytes, headers: bytes = b"") -> None:
        head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\n%bContent-Length: %d\r\n\r\n"
        self.transport.write(head % (status, headers, len(body)) + body)


class Limit:
    """So many requests a second, counted over a sliding second or as a bucket that fills up steadily."""

    def __init__(self, rate: float | None, *, bucket: bool) -> None:
        self.rate = rate
        self.bucket = bucket
        self.level = rate or 0.0
        self.filled = time.monotonic()
        self.recent: deque[float] = deque()
        self.started: float | None = None
        self.counts = [0, 0, 0, 0]

    def refuse_for(self) -> float | None:
        now = time.monotonic()
        self.started = self.started or now
        wait = None if self.rate is None else self._missing(now)
        late = now - self.started > SETTLED
        self.counts[0 if wait is None else 1] += 1
        self.counts[2] += late
        self.counts[3] += late and wait is not None
        return wait

    def figures(self) -> list[int]:
        """Return served, refused, requests after it settled, and the refused ones of those."""
        return self.counts

    def _missing(self, now: float) -> float | None:
        assert self.rate is not None
        if self.bucket:
            self.level = min(self.rate, self.level + (now - self.filled) * self.rate)
            self.filled = now
            if self.level < 1:
                return (1 - self.level) / self.rate
            self.level -= 1
            return None
        while self.recent and self.recent[0] <= now - 1:
            self.recent.popleft()
        if len(self.recent) >= self.rate:
            return self.recent[0] + 1 - now
        self.recent.append(now)
        return None


async def serve(limit: Limit) -> None:
    Served.limit = limit
    server = await asyncio.get_running_loop().create_server(Served, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"http://{host}:{port}", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--rate", type=float)
    parser.add_argument("--bucket", action="store_true")
    parser.add_argument("--only", choices=["cost", "rate"])
    parser.add_argument("--parallelism", type=int, default=CONCURRENCY, help="calls at once, for the cost")
    options = parser.parse_args()
    if options.serve:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(serve(Limit(options.rate, bucket=options.bucket)))
        return
    kept = True
    if options.only != "rate":
        with serving() as url:
            kept = cost(url, options.parallelism)
    if options.only != "cost":
        kept = under_a_rate_limit(bucket=False) and kept
        kept = under_a_rate_limit(bucket=True) and kept
    raise SystemExit(0 if kept else 1)


if __name__ == "__main__":
    main()

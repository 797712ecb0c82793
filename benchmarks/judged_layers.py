"""What a judged item costs beside the bare HTTP client, layer by layer.

Run with `python benchmarks/judged_layers.py`; it prints the CPU per item of each layer, and its ratio to the
bare client, as the median over rounds in which all layers take turns. The server is that of `judged.py`.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Final

from judged import CONCURRENCY, ITEMS, Right, Verdict, bare, judged, measured, prompt_for, serving

from dokimos import EvalTestCase
from dokimos.judges import JudgeLM, judge
from dokimos.judges._ask import ask
from dokimos.judges._reply_schema import schema_of

ROUNDS: Final = 11


Send = Callable[[int], Awaitable[object]]


def send_with(url: str, prepare: Callable[[JudgeLM], Send]) -> None:
    """Send all items, as many at once as the run does."""
    send = prepare(judge(f"{url}/v1#scripted"))
    numbers = iter(range(ITEMS))

    async def worker() -> None:
        for number in numbers:
            await send(number)

    async def send_all() -> None:
        await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))

    asyncio.run(send_all())


def prompt_of(number: int) -> str:
    return prompt_for(f"What is {number} + {number}?", str(number))


def complete(lm: JudgeLM) -> Send:
    schema = schema_of(Verdict)

    async def send(number: int) -> None:
        json.loads((await lm.complete(f"{prompt_of(number)}\n\n{schema}", schema=schema)).text)

    return send


def ask_judge(lm: JudgeLM) -> Send:
    return lambda number: ask(lm, prompt_of(number), Verdict)


def evaluate(lm: JudgeLM) -> Send:
    evaluator = Right(judge=lm, threshold=0.5)

    async def send(number: int) -> None:
        question = {"input": f"What is {number} + {number}?"}
        await evaluator.evaluate_async(EvalTestCase(question, {"output": str(number)}))

    return send


def journaled(url: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        judged(url, ITEMS, run_dir=Path(folder) / "run")


LAYERS: Final[dict[str, Callable[[str], object]]] = {
    "bare aiohttp client": lambda url: asyncio.run(bare(url, ITEMS)),
    "judge": lambda url: send_with(url, complete),
    "ask": lambda url: send_with(url, ask_judge),
    "evaluator": lambda url: send_with(url, evaluate),
    "run": lambda url: judged(url, ITEMS),
    "run with a journal": journaled,
}


def main() -> None:
    rounds: dict[str, list[float]] = {name: [] for name in LAYERS}
    with serving() as url:
        for layer in LAYERS.values():
            layer(url)
        for number in range(ROUNDS):
            for name, layer in list(LAYERS.items())[:: 1 if number % 2 else -1]:
                rounds[name].append(measured(lambda layer=layer: layer(url))[0])  # type: ignore[misc] # a default has no type
    first = rounds["bare aiohttp client"]
    before = first
    for name, spent in rounds.items():
        ratio = median(one / other for one, other in zip(spent, first, strict=True))
        step = median(one - other for one, other in zip(spent, before, strict=True))
        print(f"{name:20} {min(spent):.3f} ms (median {median(spent):.3f}), {step:+.3f}, ratio {ratio:.2f}")
        before = spent


if __name__ == "__main__":
    main()

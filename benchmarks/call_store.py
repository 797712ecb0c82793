"""What it costs to have every reply on disk before it is used.

Run with `python benchmarks/call_store.py`; it prints the CPU per judged item with and without the store, over
the journal that a run keeps anyway. The server is that of `judged.py`.
"""

from __future__ import annotations

import os
import tempfile
from statistics import median
from typing import Any, Final

from judged import CONCURRENCY, ITEMS, Right, answer, dataset, measured, serving

from dokimos import Experiment
from dokimos.judges._factory import judge
from dokimos.judges._run_call_store import RunCallStore

ROUNDS: Final = 11
BUDGET: Final = 0.2


class Forgetful:
    """Switches the store off while it is entered."""

    def __enter__(self) -> None:
        self._put: Any = RunCallStore.put
        RunCallStore.put = _forget  # type: ignore[method-assign] # for a while

    def __exit__(self, *exc_info: object) -> None:
        RunCallStore.put = self._put  # type: ignore[method-assign] # as it was


async def _forget(self: RunCallStore, *call: Any) -> None: ...


def judge_all(url: str) -> None:
    evaluator = Right(judge=judge(f"{url}/v1#scripted"), threshold=0.5)
    plan = Experiment(dataset(ITEMS), answer, [evaluator], parallelism=CONCURRENCY, progress=False)
    assert plan.run().pass_rate == 1.0


def main() -> None:
    stored, forgotten = [], []
    with tempfile.TemporaryDirectory() as folder, serving() as url:
        os.chdir(folder)
        judge_all(url)
        for _ in range(ROUNDS):
            stored.append(measured(lambda: judge_all(url)))
            with Forgetful():
                forgotten.append(measured(lambda: judge_all(url)))
        os.chdir("/")
    pairs = [(cpu, other) for (cpu, _), (other, _) in zip(stored, forgotten, strict=True)]
    # What runs beside it on the machine slows both runs of a round alike, and hardly ever half of the rounds.
    more = median(cpu / other - 1 for cpu, other in pairs)
    cost = median(cpu - other for cpu, other in pairs)
    with_store, without = (min(cpus) for cpus in zip(*pairs, strict=True))
    print(f"CPU per judged item  {with_store:.3f} ms with the store, {without:.3f} ms without")
    print(
        f"the store costs      {more:.0%} more (budget {BUDGET:.0%}), {cost:.3f} ms (medians of the rounds)"
    )
    print(f"wall                 {min(w for _, w in stored):.2f} s and {min(w for _, w in forgotten):.2f} s")
    raise SystemExit(0 if more <= BUDGET else 1)


if __name__ == "__main__":
    main()

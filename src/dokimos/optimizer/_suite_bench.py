"""Candidates run as experiments: over one split, within the budget, stored like any other run."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.results import RunStatus
from dokimos._runtime.user_calls import await_value
from dokimos.datasets._dataset import Dataset
from dokimos.errors import BudgetExceededError, ConfigurationError, EndpointDownError, JournalError
from dokimos.experiment._run_folders import runs_root
from dokimos.judges._budget import Budget
from dokimos.judges._optional_protocols import CountsOwnCalls
from dokimos.judges._run_call_store import CALLS_FILE, RunCallStore
from dokimos.optimizer._objective import Failure, Measured, sum_known, sum_spending
from dokimos.suites._loader import compile_suite

if TYPE_CHECKING:
    from dokimos._core.results import ExperimentResult
    from dokimos.experiment._experiment import Experiment
    from dokimos.optimizer._axes import AxisLocations
    from dokimos.optimizer._objective import Objective
    from dokimos.optimizer._search_journal import SearchJournal
    from dokimos.optimizer._trial import Candidate, Split
    from dokimos.suites._optimizer_schema import OptimizerBlock, OptimizerBudget
    from dokimos.suites._suite import Suite

CUT: Final = "cut-"
"""Steps that the budget ended before they had. What a `run` of them has spent counts until it has ended."""
_UNITS: Final = {"max_cost_usd": "cost_usd", "max_tokens": "tokens", "max_calls": "calls"}
"""What each limit of a budget limits."""
METADATA: Final = "optimizer"
"""Under which a run says which search, trial and split it is of."""


def split_cases(ids: Iterable[str], share: float, seed: int) -> dict[Split, tuple[str, ...]]:
    """Divide cases by chance, the same way for the same seed; neither split is empty unless it has to be."""
    cases = list(ids)
    # Drawn from the ids in the order of the file, so a case added at its end may move others.
    drawn = random.Random(seed).sample(cases, len(cases))
    count = min(max(round(share * len(cases)), 1), len(cases) - 1) if share else 0
    held = set(drawn[:count])
    return {
        "train": tuple(id for id in cases if id not in held),
        "holdout": tuple(id for id in cases if id in held),
    }


@dataclass(kw_only=True)
class Spending:
    """What a search may spend, and has spent, by its journal."""

    block: OptimizerBlock
    journal: SearchJournal
    _set_aside: dict[str, Budget] = field(default_factory=dict, init=False)
    """What the steps that go on now may spend."""

    @property
    def total(self) -> tuple[float | None, int | None]:
        """Dollars and tokens, as far as they are known."""
        steps = self._steps()
        return sum_known(s["cost_usd"] for s in steps), sum_known(s["tokens"] for s in steps)

    @property
    def calls(self) -> int:
        """Calls that were paid for."""
        return sum(step.get("calls", 0) for step in self._steps())

    def _steps(self) -> list[Mapping[str, Any]]:
        steps = [step for prefix in ("train-", "holdout-", "text-") for step in self.journal.outcomes(prefix)]
        return steps + [step for step in self.journal.outcomes(CUT) if step["run"] not in self.journal]

    @contextlib.contextmanager
    def share(self, step: str, at_once: int = 1) -> Iterator[Budget | None]:
        """Set aside what a step may spend: the same for each of those that run at once; None for no limit.

        What the step itself has spent before it was cut off is not taken from that.

        Raises:
            BudgetExceededError: where nothing is left.
        """
        if self.block.budget is None:
            yield None
            return
        # Shared evenly among those of the batch that have not taken theirs yet.
        budget = self._remaining_budget(self.block.budget, step, max(1, at_once - len(self._set_aside)))
        self._set_aside[step] = budget
        try:
            yield budget
        finally:
            del self._set_aside[step]

    def _remaining_budget(self, limits: OptimizerBudget, step: str, shares: int) -> Budget:
        steps = [done for done in self._steps() if done.get("run") != step]
        left: dict[str, Any] = {}
        for name, unit in _UNITS.items():
            limit = getattr(limits, name)
            if limit is None:
                continue
            amount = limit - sum(done.get(unit) or 0 for done in steps)
            amount -= sum(getattr(budget, name) for budget in self._set_aside.values())
            if amount <= 0:
                cost, tokens = (spent or 0 for spent in self.total)
                raise BudgetExceededError(
                    f"the budget is used up: {cost:.4f} USD and {tokens:,} tokens in {self.calls:,} calls"
                )
            left[name] = amount / shares if unit == "cost_usd" else max(1, int(amount) // shares)
        return Budget(**left)


@dataclass(kw_only=True)
class SuiteBench:
    """Runs candidates of one suite."""

    locations: AxisLocations
    splits: Mapping[Split, Sequence[str]]
    objective: Objective
    block: OptimizerBlock
    journal: SearchJournal
    spending: Spending
    search: str
    """The name of the search, which its runs carry."""
    run_dir: str | Path | None = None
    llm_timeout: float | None = None
    unfinished: Mapping[tuple[int, Split], Path] = field(default_factory=dict)
    """Runs that an earlier process has begun, by trial and split."""

    async def run(self, trial: int, candidate: Candidate, split: Split, *, at_once: int = 1) -> Measured:
        """Run a candidate, or take what an earlier process found."""
        step = f"{split}-{trial}"

        async def work() -> Measured:
            with self.spending.share(step, at_once) as budget:
                return await self._measure(trial, candidate, split, budget)

        return await self.journal.once(step, work, parse_measured)

    async def _measure(
        self, trial: int, candidate: Candidate, split: Split, budget: Budget | None
    ) -> Measured:
        try:
            suite = compile_suite(self.locations.apply(candidate), llm_timeout=self.llm_timeout)
        except ConfigurationError as error:
            # A candidate that makes no valid suite is a trial without a result, not the end of the search.
            return Measured(error=str(error))
        try:
            experiment = self._experiment(suite, trial, candidate, split, budget)
            result = await self._run_or_resume(experiment, self.unfinished.get((trial, split)))
        finally:
            await close_application(suite.application)
        calls = self._calls_of(result, suite)
        if result.status in (RunStatus.BUDGET_SPENT, RunStatus.ENDPOINT_DOWN):
            step = f"{split}-{trial}"
            # Spent although there is no outcome: a resumed search must not spend it again.
            self.journal.put(f"{CUT}{step}", {"run": step, **sum_spending(result), "calls": calls})
            why = result.warnings[0]
            if result.status is RunStatus.ENDPOINT_DOWN:
                raise EndpointDownError(f"trial {trial} cannot be measured: {why}")
            raise BudgetExceededError(f"the budget ended within trial {trial}: {why}")
        return replace(self.objective.measure(result), calls=calls)

    def _calls_of(self, result: ExperimentResult, suite: Suite) -> int:
        """Count the calls of a run as its budget does."""
        stored = RunCallStore(runs_root(self.run_dir) / str(result.run_id) / CALLS_FILE)
        try:
            paid = sum(1 for _ in stored.costs())
        finally:
            stored.close()
        if isinstance(suite.application, CountsOwnCalls) and suite.application.counts_own_calls:
            return paid
        metrics = [item.metrics for item in result.item_results if item.metrics is not None]
        # The budget counts an application that reports usage as one call per item.
        return paid + sum(m.tokens is not None or m.cost_usd is not None for m in metrics)

    async def _run_or_resume(self, experiment: Experiment, unfinished: Path | None) -> Any:
        options: dict[str, Any] = {"quiet": True, "run_dir": self.run_dir}
        if unfinished is not None:
            try:
                return await experiment.run_async(**options, resume=unfinished)
            except JournalError:
                pass  # it cannot be gone on with, so it is run anew
        return await experiment.run_async(**options)

    def _experiment(
        self, suite: Suite, trial: int, candidate: Candidate, split: Split, budget: Budget | None
    ) -> Experiment:
        experiment = suite.experiment()
        chosen = set(self.splits[split])
        examples = [example for example in experiment.dataset if example.metadata["case"] in chosen]
        about = {"search": self.search, "trial": trial, "split": split, "params": dict(candidate.numbers)}
        options = experiment.options if budget is None else replace(experiment.options, budget=budget)
        return replace(
            experiment,
            dataset=Dataset(examples, name=f"{suite.name} ({split})", description=suite.description),
            name=f"{suite.name} (trial {trial}, {split})",
            metadata={**experiment.metadata, METADATA: about},
            runs=self.block.repeats,
            options=options,
        )


def parse_measured(tree: Mapping[str, Any]) -> Measured:
    """Read what the journal has kept of a run."""
    failures = tuple(Failure(**{**entry, "reasons": tuple(entry["reasons"])}) for entry in tree["failures"])
    return Measured(**{**tree, "failures": failures})


def find_unfinished_runs(root: Path, search: str) -> dict[tuple[int, Split], Path]:
    """Find the runs of a search that are stored, by trial and split; of several the last one."""
    from dokimos.experiment._run_folders import list_run_folders
    from dokimos.experiment._run_manifest import read_manifest

    runs: dict[tuple[int, Split], Path] = {}
    for folder in list_run_folders(root):
        try:
            about = (read_manifest(folder).get("metadata") or {}).get(METADATA)
        except JournalError:
            continue
        if isinstance(about, Mapping) and about.get("search") == search:
            runs[about["trial"], about["split"]] = folder
    return runs


async def close_application(application: object) -> None:
    """Close an application that holds something, such as connections and processes of its tools."""
    close = getattr(application, "aclose", None) or getattr(application, "close", None)
    if close is not None:
        await await_value(close())

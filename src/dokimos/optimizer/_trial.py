"""Candidates, the trials of them, and what runs and writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from dokimos.optimizer._acceptance import Decision
from dokimos.optimizer._objective import Measured

Split: TypeAlias = Literal["train", "holdout"]
Phase: TypeAlias = Literal["numeric", "textual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A value for each axis, by its path."""

    numbers: Mapping[str, Any] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A text that was proposed, or why there is none."""

    text: str = ""
    summary: str = ""
    error: str | None = None
    cost_usd: float | None = None
    tokens: int | None = None
    calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A change that was tried, as it is described to whoever proposes the next one."""

    summary: str
    loss: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A candidate, and what came of it."""

    id: int
    """0 is the suite as it is."""
    cycle: int = 0
    phase: Phase | None = None
    candidate: Candidate
    measured: Measured = field(default_factory=Measured)
    baseline_loss: float | None = None
    """The loss of what the suite had been changed to until then."""
    axis: str | None = None
    summary: str = ""
    error: str | None = None
    infeasible: str | None = None
    """Which ceiling it exceeds."""
    holdout: Measured | None = None
    decision: Decision | None = None

    @property
    def loss(self) -> float | None:
        return self.measured.loss

    @property
    def is_accepted(self) -> bool:
        return self.decision is not None and self.decision.accepted

    @property
    def counts(self) -> bool:
        """Whether it may be preferred at all."""
        return self.loss is not None and self.error is None and self.infeasible is None


class Bench(Protocol):
    """Runs candidates."""

    async def run(self, trial: int, candidate: Candidate, split: Split, *, at_once: int = 1) -> Measured:
        """Run a candidate over one split, one of so many `at_once`, which share what is left of the budget.

        Raises:
            BudgetExceededError: where the budget ends first.
        """
        ...


class Writer(Protocol):
    """Rewrites texts."""

    async def rewrite(
        self, trial: int, axis: str, source: Trial, attempts: Sequence[Attempt], *, at_once: int = 1
    ) -> Rewrite:
        """Propose another text for an axis of the candidate that was tried in `source`."""
        ...


@dataclass(slots=True, kw_only=True)
class SearchState:
    """How far a search has come."""

    baseline: Trial
    best: Trial
    """What is accepted so far."""
    trials: list[Trial] = field(default_factory=list)
    stopped: str = ""
    """Why the search has ended."""
    cycles: int = 0

    @property
    def has_improved(self) -> bool:
        return self.best.id != 0


def trial_fields(trial: Trial) -> dict[str, Any]:
    """Return a trial as `trials.jsonl` and the progress events tell it."""
    return {
        "trial_id": trial.id,
        "cycle": trial.cycle,
        "phase": trial.phase,
        "loss": trial.loss,
        "baseline_loss": trial.baseline_loss,
        "accepted": trial.is_accepted,
        "params": dict(trial.candidate.numbers),
        "textual_axis": trial.axis,
        "edit_summary": trial.summary or None,
        "excluded_metrics": [],
        "error": trial.error,
        "infeasible": trial.infeasible,
        "holdout": decision_fields(trial.decision),
        "case_cost_usd": trial.measured.case_cost_usd,
        "latency_ms": trial.measured.latency_ms,
        "errored": trial.measured.errored,
        "run_id": trial.measured.run_id,
        "holdout_run_id": None if trial.holdout is None else trial.holdout.run_id,
    }


def decision_fields(decision: Decision | None) -> dict[str, Any] | None:
    """Return what the held-out cases said."""
    if decision is None:
        return None
    interval = None if decision.interval is None else [decision.interval.low, decision.interval.high]
    return {
        "accepted": decision.accepted,
        "improvement": decision.improvement,
        "interval": interval,
        "p": decision.p,
        "level": decision.level,
        "cases": decision.cases,
        "reason": decision.reason,
    }

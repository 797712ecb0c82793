"""The numeric axes as one space, searched by Optuna's TPE in one study that outlives phases and processes."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dokimos._core.extras import require
from dokimos.optimizer._search_journal import SearchJournal

if TYPE_CHECKING:
    from dokimos.suites._optimizer_schema import NumericAxis

STUDY_FILE: Final = "study.log"
STUDY_NAME: Final = "dokimos"
_ATTEMPTS: Final = 8
"""How often TPE is asked for a proposal that is new."""
_RANDOM_FIRST: Final = 4
_DIGITS: Final = 3
"""A float has so many digits more than the size of its range needs."""
_ENUMERABLE: Final = 100_000
WORST: Final = 1.0

Point: TypeAlias = Mapping[str, Any]
"""A value for each axis, by its path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A point to be tried."""

    point: Point
    raw: Mapping[str, Any]
    """As the study knows it: floats before they are rounded, values of categories by their place."""


class NumericSpace:
    """Proposes points that were never proposed before.

    The study is kept in a file for others to read, trial by trial. A search that is resumed builds it anew
    from its own journal, so the study is never ahead of the journal or behind it.
    """

    def __init__(
        self,
        axes: Sequence[NumericAxis],
        *,
        seed: int,
        folder: Path | None = None,
        journal: SearchJournal | None = None,
    ) -> None:
        self._axes = {axis.path: axis for axis in axes}
        self._seed = seed
        self._journal = journal or SearchJournal(None)
        self._optuna: Any = require("optuna", extra="optimize")
        self._optuna.logging.set_verbosity(self._optuna.logging.WARNING)
        self._distributions = {axis.path: self._distribution(axis) for axis in axes}
        self._study = self._optuna.create_study(direction="minimize")
        self._kept = None if folder is None else self._study_in(folder)
        self._asked: dict[str, Any] = {}
        self._seen: set[str] = set()
        self._shift = 0.0

    def start(self, current: Point, loss: float) -> None:
        """Enqueue the values that the suite has now, whose loss is known."""
        self._seen.add(_key(current))
        raw = self._raw(current)
        if raw is not None:
            self._add(raw, loss)

    def propose(self, trial: int) -> Proposal | None:
        """Return a new point for a trial, None where there is none left."""
        step = f"point-{trial}"
        stored = self._journal.get(step)
        if stored is not None:
            proposal = self._proposal(stored)
            self._seen.add(_key(proposal.point))
            return proposal
        new = self._new_proposal()
        if new is not None:
            self._journal.put(step, new.raw)
        return new

    def _new_proposal(self) -> Proposal | None:
        for attempt in range(_ATTEMPTS):
            self._study.sampler = self._sampler(attempt)
            trial = self._study.ask(self._distributions)
            proposal = self._proposal(dict(trial.params))
            if self._is_new(proposal):
                self._asked[_key(proposal.point)] = trial
                return proposal
            # Failed trials teach TPE nothing; a trial that was asked for and never told would stay open.
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        return self._pick_untried()

    def tell(self, proposal: Proposal, loss: float | None) -> None:
        """Say what came of a proposal; None is the worst there is."""
        value = WORST + self._shift if loss is None else loss + self._shift
        # None for a point from the journal: the study of this process has not been asked for it.
        trial = self._asked.pop(_key(proposal.point), None)
        if trial is not None:
            self._study.tell(trial, value)
        self._add(proposal.raw, value, is_known=trial is not None)

    def shift(self, gain: float) -> None:
        """Leave a gain that came from elsewhere, such as a new text, out of what later points get to see."""
        self._shift += gain

    def _is_new(self, proposal: Proposal) -> bool:
        key = _key(proposal.point)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _pick_untried(self) -> Proposal | None:
        """Return a point that is left, by chance, once TPE proposes only what is known."""
        left = [raw for raw in self._all_points() if _key(self._proposal(raw).point) not in self._seen]
        if not left:
            return None
        proposal = self._proposal(random.Random(f"{self._seed}:{len(self._seen)}").choice(left))
        self._seen.add(_key(proposal.point))
        return proposal

    def _all_points(self) -> Iterator[dict[str, Any]]:
        sizes = [_size(axis) for axis in self._axes.values()]
        if any(size is None for size in sizes) or math.prod(size or 1 for size in sizes) > _ENUMERABLE:
            return
        choices = [
            range(len(axis.range)) if axis.type == "categorical" else range(axis.range[0], axis.range[1] + 1)
            for axis in self._axes.values()
        ]
        for values in product(*choices):
            yield dict(zip(self._axes, values, strict=True))

    def _add(self, raw: Mapping[str, Any], value: float, *, is_known: bool = False) -> None:
        frozen_trial = self._optuna.trial.create_trial(
            params=dict(raw), distributions=self._distributions, value=value
        )
        if not is_known:
            self._study.add_trial(frozen_trial)
        if self._kept is not None:
            self._kept.add_trial(frozen_trial)

    def _sampler(self, attempt: int) -> Any:
        # The seed follows from how far the study is, so a resumed search goes on like one that was not cut.
        done = len(self._seen)
        return self._optuna.samplers.TPESampler(
            seed=(self._seed * 1_000_003 + done * 101 + attempt) % 2**32, n_startup_trials=_RANDOM_FIRST
        )

    def _proposal(self, raw: dict[str, Any]) -> Proposal:
        return Proposal(point={path: self._value(path, value) for path, value in raw.items()}, raw=raw)

    def _value(self, path: str, raw: Any) -> Any:
        axis = self._axes[path]
        if axis.type == "categorical":
            return axis.range[raw]
        return _round(raw, axis) if axis.type == "float" else raw

    def _raw(self, point: Point) -> dict[str, Any] | None:
        """Return a point as the study knows it, None where it lies outside."""
        raw: dict[str, Any] = {}
        for path, axis in self._axes.items():
            value = point.get(path)
            if axis.type == "categorical":
                indices = [n for n, choice in enumerate(axis.range) if repr(choice) == repr(value)]
                if not indices:
                    return None
                raw[path] = indices[0]
            elif isinstance(value, int | float) and axis.range[0] <= value <= axis.range[1]:
                raw[path] = value
            else:
                return None
        return raw

    def _distribution(self, axis: NumericAxis) -> Any:
        optuna_types = self._optuna.distributions
        if axis.type == "categorical":
            # Positions instead of the values, which may be lists and maps; Optuna stores plain choices only.
            return optuna_types.CategoricalDistribution(tuple(range(len(axis.range))))
        kind = optuna_types.IntDistribution if axis.type == "int" else optuna_types.FloatDistribution
        return kind(axis.range[0], axis.range[1])

    def _study_in(self, folder: Path) -> Any:
        require("optuna.storages.journal", extra="optimize")
        path = folder / STUDY_FILE
        for file in folder.glob(f"{STUDY_FILE}*"):  # also the lock of a process that was killed
            file.unlink()
        backend = self._optuna.storages.journal.JournalFileBackend(str(path))
        storage = self._optuna.storages.JournalStorage(backend)
        return self._optuna.create_study(storage=storage, study_name=STUDY_NAME, direction="minimize")


def _size(axis: NumericAxis) -> int | None:
    """Return how many values an axis has, None where they cannot be counted."""
    if axis.type == "float":
        return None
    return len(axis.range) if axis.type == "categorical" else axis.range[1] - axis.range[0] + 1


def _round(value: float, axis: NumericAxis) -> float:
    low, high = axis.range
    # Three digits below the size of the range: a temperature of 0.7351 is the same setting as 0.735.
    digits = max(0, _DIGITS - math.floor(math.log10(high - low)))
    return float(min(max(round(value, digits), low), high))


def _key(point: Point) -> str:
    return repr(sorted(point.items()))

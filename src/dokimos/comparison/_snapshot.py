"""One side of a comparison: for each item the verdicts and scores of its repeats, whatever they came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from dokimos._core.error_detail import ErrorDetail, append_place
from dokimos._core.example import Example
from dokimos._core.keys import OUTPUT
from dokimos._core.means import exact_mean
from dokimos._core.outcome import SUCCESS, Outcome
from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.results import ExperimentResult, ItemResult, RunStatus
from dokimos._core.score_range import ScoreRange
from dokimos._core.text import pluralize
from dokimos.errors import ConfigurationError
from dokimos.exporters._item_runs import render_inputs, render_value

TASK: Final = ""
"""Stands for the task where errors are listed by evaluator; no evaluator has this name."""
_NOTHING: Final[dict[str, Any]] = {}
"""The same for all items that have no errors, or no scores: an empty dictionary for each would add up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorFacts:
    """What a comparison needs to know about an evaluator."""

    name: str
    lower_is_better: bool = False
    deterministic: bool = True
    threshold: float | None = None
    fingerprint: str = ""
    score_range: ScoreRange | None = None
    """The lowest and the highest possible score, None for 0..1."""

    @classmethod
    def of(cls, info: EvaluatorInfo) -> Self:
        return cls(
            name=info.name,
            lower_is_better=info.lower_is_better,
            deterministic=info.deterministic,
            threshold=info.threshold,
            fingerprint=info.fingerprint,
            score_range=info.score_range,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSnapshot:
    """The results of one item on one side, over its repeats."""

    index: int
    """0-based position in the data set."""
    id: str | None = None
    input: str | None = None
    verdicts: tuple[bool, ...] = ()
    """Whether the item passed, of each repeat that judged it; an errored one did not pass."""
    scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """By evaluator, of each repeat that has a score."""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    passes: Mapping[str, tuple[bool, ...]] = field(default_factory=dict)
    """By evaluator, of each repeat in which it decided."""
    errors: Mapping[str, str] = field(default_factory=dict)
    """The first error by evaluator; under `TASK` that of the task."""
    errored: bool = False
    """Whether every repeat errored."""
    results: tuple[ItemResult, ...] = ()
    """Where it comes from a run: the whole results, to show them and to run the example again."""

    @classmethod
    def of(cls, repeats: Sequence[ItemResult]) -> Self:
        """Merge the repeats of one item."""
        scores: dict[str, tuple[float, ...]] = {}
        passes: dict[str, tuple[bool, ...]] = {}
        thresholds: dict[str, float] = {}
        errors: dict[str, str] = {}
        outcomes = []
        # In one go and without asking twice: large runs have a hundred thousand items, mostly of one repeat.
        for item in repeats:
            outcomes.append(item.outcome)
            if item.error is not None:
                errors.setdefault(TASK, item.error)
            for result in item.eval_results:
                name = result.name
                if result.score is not None:
                    scores[name] = (*scores[name], result.score) if name in scores else (result.score,)
                if result.success is not None:
                    passes[name] = (*passes[name], result.success) if name in passes else (result.success,)
                if result.threshold is not None:
                    thresholds.setdefault(name, result.threshold)
                if result.error is not None:
                    errors.setdefault(name, result.error)
        first = repeats[0]
        return cls(
            index=first.index,
            id=first.example.id,
            input=render_inputs(first),
            verdicts=tuple([SUCCESS[outcome] for outcome in outcomes if outcome in SUCCESS]),
            scores=scores or _NOTHING,
            thresholds=thresholds or _NOTHING,
            passes=passes or _NOTHING,
            errors=errors or _NOTHING,
            errored=all([outcome is Outcome.ERRORED for outcome in outcomes]),
            results=tuple(repeats),
        )

    @property
    def index_key(self) -> str:
        return f"item-{self.index}"

    @property
    def example(self) -> Example | None:
        return self.results[0].example if self.results else None

    @property
    def answer(self) -> str | None:
        """The answer of the first repeat, or its error; None where neither was recorded."""
        if not self.results:
            return None
        first = self.results[0]
        if first.error is not None:
            return f"Error: {append_place(first.error, first.error_detail)}"
        return render_value(first.actual_outputs, OUTPUT)

    @property
    def errors_with_location(self) -> Mapping[str, str]:
        """The errors as in `errors`, each with its place in the user's code where that is known."""
        first = _first_errors(self.results)
        locations = {name: append_place(error, detail) for name, (error, detail) in first.items()}
        return {**self.errors, **locations}

    @property
    def pass_share(self) -> float | None:
        """Share of the repeats that passed, None if none judged the item."""
        return sum(self.verdicts) / len(self.verdicts) if self.verdicts else None

    def mean(self, evaluator: str) -> float | None:
        """Mean score of the repeats, None without one."""
        scores = self.scores.get(evaluator)
        if not scores:
            return None
        return scores[0] if len(scores) == 1 else exact_mean(scores)

    def error_of(self, evaluator: str) -> str | None:
        """Why an evaluator gave no score: its own error or the task's, None where neither errored.

        One of several scores also has none where the evaluator that gives them errored as a whole.
        """
        whole = evaluator.rpartition(".")[0]
        errors = (self.errors.get(name) for name in (evaluator, whole, TASK))
        return next((error for error in errors if error is not None), None)

    @property
    def repeats(self) -> int:
        """How often it was run, as far as the records show."""
        seen = (self.verdicts, *self.scores.values())
        # A baseline file has no results: the longest record is then what is known.
        return len(self.results) or max(1, *map(len, seen))

    def count_errors(self, evaluator: str) -> int:
        """Repeats in which an evaluator, or the task before it, gave an error instead of a score."""
        if self.error_of(evaluator) is None:
            return 0
        # At least the one that is recorded: a baseline file does not say how many repeats had no score.
        return max(1, self.repeats - len(self.scores.get(evaluator, ())))


def _first_errors(repeats: Iterable[ItemResult]) -> dict[str, tuple[str, ErrorDetail | None]]:
    """Return the first error of the task and of each evaluator, with where it came from."""
    first: dict[str, tuple[str, ErrorDetail | None]] = {}
    for item in repeats:
        if item.error is not None:
            first.setdefault(TASK, (item.error, item.error_detail))
        for result in item.eval_results:
            if result.error is not None:
                first.setdefault(result.name, (result.error, result.error_detail))
    return first


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One side of a comparison. `Snapshot.of` makes one of results."""

    name: str = "unnamed"
    items: tuple[ItemSnapshot, ...] = ()
    evaluators: Mapping[str, EvaluatorFacts] = field(default_factory=dict)
    """Those that gave a result or were to give one, by name."""
    runs: int = 1
    """Repeats of the whole data set."""
    dataset_name: str | None = None
    status: RunStatus = RunStatus.COMPLETED
    partial: str | None = None
    """Which part of a run it is, such as the items that had failed; None for a whole one."""
    label: str = ""
    """How to name this side to a command: a run id or a file."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What distinguishes this side from another of the same name, most important first: prompt, model,
    commit, start and run id."""
    records_repeats: bool = True
    """Whether it records repeats and which evaluators are deterministic; baselines of other implementations
    do not."""

    @classmethod
    def of(cls, results: ExperimentResult | Sequence[ExperimentResult]) -> Self:
        """Make a snapshot of one result, or of several that are repeats of each other.

        Raises:
            ConfigurationError: when the items were not kept, or there is no result.
        """
        several = _require_results(results)
        first, runs = several[0], sum(result.run_count for result in several)
        items = [item for result in several for item in result.item_results]
        # Results of one run have their repeats in the same places. Several runs may differ in the order of
        # their items.
        by_id = len(several) > 1 and all(item.example.id is not None for item in items)
        return cls(
            name=first.name,
            items=_group_repeats(items, by_id=by_id, runs=runs),
            evaluators=_evaluator_facts(several, items),
            runs=runs,
            dataset_name=first.provenance.dataset_name,
            status=_status(several),
            partial=next((part for one in several if (part := one.provenance.partial) is not None), None),
            label=first.run_id or first.name,
            facts=_facts_of_side(first),
        )

    @property
    def pass_rate(self) -> float | None:
        """Mean over the judged items of the share of repeats that passed, None if none was judged."""
        shares = [share for item in self.items if (share := item.pass_share) is not None]
        return exact_mean(shares) if shares else None

    @property
    def items_in_error(self) -> tuple[ItemSnapshot, ...]:
        return tuple(item for item in self.items if item.errored)


def _require_results(results: ExperimentResult | Sequence[ExperimentResult]) -> list[ExperimentResult]:
    several = [results] if isinstance(results, ExperimentResult) else results
    if not isinstance(several, list | tuple) or not several:
        raise _not_a_result(several)
    for one in several:
        if not isinstance(one, ExperimentResult):
            raise _not_a_result(one)
    for result in several:
        if any(run.total_count and not run.item_results for run in result.runs):
            raise ConfigurationError(
                f"The items of {result.name!r} were not kept (keep_results=False), so there is nothing to "
                "compare. Run it again without that setting."
            )
    return list(several)


def _status(results: Iterable[ExperimentResult]) -> RunStatus:
    """The first status that is not that of a run which ended well."""
    return next((one.status for one in results if one.status is not RunStatus.COMPLETED), RunStatus.COMPLETED)


def _facts_of_side(result: ExperimentResult) -> dict[str, str]:
    source, about = result.provenance, result.metadata
    facts = {
        "prompt": about.get("promptVersion"),
        "model": about.get("model") or result.metrics.model,
        "commit": source.git_commit and f"{source.git_commit[:10]}{' changed' if source.git_dirty else ''}",
        "branch": source.git_branch,
        "pull request": source.pull_request,
        "started": source.started_at and source.started_at[:16].replace("T", " "),
        "run": result.run_id,
    }
    return {name: str(value) for name, value in facts.items() if value}


def _evaluator_facts(
    several: Sequence[ExperimentResult], items: Iterable[ItemResult]
) -> dict[str, EvaluatorFacts]:
    """Return the facts of each evaluator: those that gave results first, in the order of the results."""
    infos = {info.name: info for result in several for info in result.evaluators}
    names = dict.fromkeys([*(name for result in several for name in result.evaluator_names), *infos])
    return {name: _facts(name, infos.get(name), items) for name in names}


def _facts(name: str, info: EvaluatorInfo | None, items: Iterable[ItemResult]) -> EvaluatorFacts:
    if info is not None:
        return EvaluatorFacts.of(info)
    results = [result for item in items if (result := item.result(name)) is not None]
    threshold = next((r.threshold for r in results if r.threshold is not None), None)
    score_range = next((r.score_range for r in results if r.score_range is not None), None)
    return EvaluatorFacts(name=name, threshold=threshold, score_range=score_range)


def _group_repeats(items: Iterable[ItemResult], *, by_id: bool, runs: int) -> tuple[ItemSnapshot, ...]:
    """Group the repeats by item."""
    groups: dict[str | int, list[ItemResult]] = {}
    for item in items:
        groups.setdefault(item.key if by_id else item.index, []).append(item)
    # Shared ids would merge different items into one and pass for repeats of it.
    for repeats in groups.values():
        if len(repeats) > runs:
            key = repeats[0].key if by_id else repeats[0].index_key
            raise ConfigurationError(
                f"There are {len(repeats)} results of {key!r} in {pluralize(runs, 'run')}: give each item an "
                "id of its own."
            )
    return tuple(sorted(map(ItemSnapshot.of, groups.values()), key=lambda item: item.index))


def index_by_id(items: Iterable[ItemSnapshot], label: str) -> dict[str, ItemSnapshot]:
    """Return the items by their id.

    Raises:
        ConfigurationError: where ids are missing or shared.
    """
    by_id: dict[str, ItemSnapshot] = {}
    without = []
    for item in items:
        if item.id is None:
            without.append(item)
        elif item.id in by_id:
            raise ConfigurationError(
                f"{label}: two items have the id {item.id!r}, so items cannot be paired by id. Give each "
                'its own, or pair by position (pairing="positional").'
            )
        else:
            by_id[item.id] = item
    if without:
        raise ConfigurationError(
            f"{label}: {len(without)} of {pluralize(len(without) + len(by_id), 'item')} "
            f"{'has' if len(without) == 1 else 'have'} no id, so they cannot be paired by id; the first is "
            f"{without[0].index_key} ({without[0].input!r:.60}). Give each an id, or pair by position "
            '(pairing="positional").'
        )
    return by_id


def _not_a_result(given: object) -> ConfigurationError:
    hint = " load_result(path) reads one from a report or a run." if isinstance(given, str | Path) else ""
    return ConfigurationError(
        f"A comparison needs an ExperimentResult, or several, for each side, not {given!r:.80}.{hint}"
    )

"""What is scored: the recorded answers, their mutants, the evaluators, and how often judges are asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dokimos._core.item_result import ItemResult
from dokimos._core.text import format_list
from dokimos.errors import ConfigurationError, EvaluationError
from dokimos.evaluators._base import Evaluator
from dokimos.experiment._experiment import as_evaluators
from dokimos.experiment._item_scoring import choose_evaluators
from dokimos.experiment._judge_call_count import count_judge_calls, is_judged
from dokimos.mutation._kinds import MutationKind
from dokimos.mutation._mutants import Mutant, make_mutants

if TYPE_CHECKING:
    from dokimos._core.example import Example
    from dokimos._core.results import ExperimentResult
    from dokimos.experiment._experiment import EvaluatorSource


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCalls:
    """How often judges are asked at most."""

    for_answers: int
    for_mutants: int
    is_least: bool
    """Whether there may be more, since an evaluator asks as often as the answer needs."""

    @property
    def total(self) -> int:
        return self.for_answers + self.for_mutants


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationPlan:
    """What is to be scored."""

    name: str
    seed: int
    kinds: tuple[MutationKind, ...]
    items: tuple[ItemResult, ...]
    """The recorded answers, of the first repeat."""
    no_answer: int
    mutants: tuple[Mutant, ...]
    source: EvaluatorSource
    judged_excluded: tuple[str, ...]
    calls: JudgeCalls
    all_metrics: bool
    """Whether judged evaluators score also what others have decided already."""

    def list_judged(self, item: ItemResult) -> tuple[str, ...]:
        """Return the names of the evaluators of an item that ask a model."""
        return tuple(one.name for one in choose_for_item(self.source, item) if is_judged(one))


def plan_mutations(
    result: ExperimentResult,
    evaluators: EvaluatorSource | Evaluator,
    *,
    kinds: Iterable[MutationKind | str] | None = None,
    seed: int = 0,
    judged: bool = False,
    limit: int | None = None,
    all_metrics: bool = False,
) -> MutationPlan:
    """Make the mutants of a result and choose what scores them; nothing is scored yet.

    Raises:
        ConfigurationError: where there is nothing to score, or nothing to score it with.
    """
    chosen = _check_kinds(kinds)
    items = _find_items(result)
    answered = [item for item in items if item.error is None]
    if not answered:
        raise ConfigurationError(
            f"{_name(result)} has no recorded answers: all of its {len(items)} items errored. "
            "A mutation score needs answers to put faults into."
        )
    answered = answered[:limit]
    mutants = make_mutants(answered, kinds=chosen, seed=seed)
    source = as_evaluators(evaluators)
    used = source if judged else select_judged(source, judged=False)
    excluded = () if judged else _name_judged(source, answered)
    _check_left(used, answered, excluded)
    return MutationPlan(
        name=_name(result),
        seed=seed,
        kinds=chosen,
        items=tuple(answered),
        no_answer=len(items) - sum(item.error is None for item in items),
        mutants=mutants,
        source=used,
        judged_excluded=excluded,
        calls=_count_calls(used, answered, mutants),
        all_metrics=all_metrics,
    )


@dataclass(frozen=True)
class _JudgedFilter:
    """Chooses the evaluators of an example that ask a model, or those that do not."""

    source: EvaluatorSource
    judged: bool

    def __call__(self, example: Example) -> Sequence[Evaluator]:
        return [one for one in choose_evaluators(self.source, example) if is_judged(one) is self.judged]


def select_judged(source: EvaluatorSource, *, judged: bool) -> EvaluatorSource:
    """Return the evaluators that ask a model, or those that do not."""
    if callable(source):
        return _JudgedFilter(source, judged)
    return tuple(one for one in source if is_judged(one) is judged)


def _check_kinds(kinds: Iterable[MutationKind | str] | None) -> tuple[MutationKind, ...]:
    if kinds is None:
        return tuple(MutationKind)
    try:
        chosen = tuple(dict.fromkeys(MutationKind(kind) for kind in kinds))
    except ValueError as error:
        known = ", ".join(MutationKind)
        raise ConfigurationError(f"Unknown kind of fault: {error}. There are {known}.") from None
    if not chosen:
        raise ConfigurationError("Name at least one kind of fault, or none for all.")
    return chosen


def _find_items(result: ExperimentResult) -> Sequence[ItemResult]:
    if not result.runs or not result.runs[0].total_count:
        raise ConfigurationError(f"{_name(result)} has no items, so there is nothing to put faults into.")
    if not result.runs[0].item_results:
        raise ConfigurationError(
            f"{_name(result)} ran with keep_results=False, so its answers were not kept. Run it without that."
        )
    # One repeat: faults in several answers to the same question would count it several times.
    return result.runs[0].item_results


def _name(result: ExperimentResult) -> str:
    return result.run_id or result.name


def choose_for_item(source: EvaluatorSource, item: ItemResult) -> Sequence[Evaluator]:
    """Return the evaluators of an item. Raises `ConfigurationError` where a function refuses its example."""
    try:
        return choose_evaluators(source, item.example)
    except EvaluationError as error:
        raise ConfigurationError(
            f"The evaluators of item {item.key!r} could not be chosen ({error}). The suite must be the one "
            "that the answers were recorded with; where it has changed, run it again."
        ) from error


def _name_judged(source: EvaluatorSource, items: Sequence[ItemResult]) -> tuple[str, ...]:
    names = {one.name: None for item in items for one in choose_for_item(source, item) if is_judged(one)}
    return tuple(names)


def _check_left(source: EvaluatorSource, items: Sequence[ItemResult], excluded: Sequence[str]) -> None:
    if any(choose_for_item(source, item) for item in items):
        return
    if excluded:
        raise ConfigurationError(
            f"All evaluators ask a model ({format_list(list(excluded))}). To use them, which costs calls: "
            "judged=True, or --judged on the command line."
        )
    raise ConfigurationError("There are no evaluators, so nothing could notice a fault.")


def _count_calls(
    source: EvaluatorSource, items: Sequence[ItemResult], mutants: Sequence[Mutant]
) -> JudgeCalls:
    counts = {id(item): count_judge_calls(choose_for_item(source, item)) for item in items}
    return JudgeCalls(
        for_answers=sum(count.calls for count in counts.values()),
        for_mutants=sum(counts[id(mutant.item)].calls for mutant in mutants),
        is_least=any(not count.is_known for count in counts.values()),
    )

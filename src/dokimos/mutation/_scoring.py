"""Scoring the recorded answers and their mutants with the same evaluators, and counting what is noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

from dokimos._core import checks
from dokimos._core.item_result import ItemResult
from dokimos._core.metrics import CallMetrics
from dokimos._core.outcome import Outcome
from dokimos.experiment._model_calls import ModelCalls
from dokimos.experiment._run_options import CallOptionKeywords, RunOptions
from dokimos.mutation._item_scoring import ItemScorer, ScoredItems
from dokimos.mutation._kinds import MutationKind
from dokimos.mutation._mutants import Mutant
from dokimos.mutation._plan import MutationPlan, plan_mutations
from dokimos.mutation._report import (
    ExcludedAnswers,
    KindScore,
    MetricMutations,
    MutationReport,
    Survivor,
)

if TYPE_CHECKING:
    from dokimos._core.results import ExperimentResult
    from dokimos.evaluators._base import Evaluator
    from dokimos.experiment._experiment import EvaluatorSource


def measure_mutation_score(
    result: ExperimentResult,
    evaluators: EvaluatorSource | Evaluator,
    *,
    kinds: Iterable[MutationKind | str] | None = None,
    seed: int = 0,
    judged: bool = False,
    limit: int | None = None,
    all_metrics: bool = False,
    parallelism: int = 8,
    **keywords: Unpack[CallOptionKeywords],
) -> MutationReport:
    """Put faults into the recorded answers of a result and say how many of them the evaluators notice.

    A fault is noticed where a metric that passes the recorded answer fails the one with the fault. Answers
    that do not pass as they are have no mutants. Of a result with several repeats, the first is used.

    Args:
        result: A finished run with its outputs.
        evaluators: The evaluators of the suite, or the function that chooses them for each example.
        kinds: The kinds of faults; all unless given.
        seed: Chooses the places of the faults, and what stands there instead.
        judged: Whether evaluators that ask a model are used, too: each answer and each mutant costs calls.
        limit: Only so many answers, from the first.
        all_metrics: Whether evaluators that ask a model score also what others have decided at no cost, for
            complete figures of each evaluator.
        parallelism: Items scored at once.
        keywords: `budget`, `cassette`, `cassette_mode`, `cache` and `evaluator_timeout` of `RunOptions`.

    Raises:
        ConfigurationError: where there is nothing to score, or nothing to score it with.

    Example:
        >>> examples = [Example.of("Capital of Italy?", "Rome"), Example.of("Capital of Peru?", "Lima")]
        >>> answers = {"Capital of Italy?": "It is Rome.", "Capital of Peru?": "It is Lima."}
        >>> metrics = [TokenF1(threshold=0.3)]
        >>> result = evaluate(examples, answers.get, metrics, quiet=True, journal=False)
        >>> report = measure_mutation_score(result, metrics)
        >>> report.kind("swapped_entity").rate, report.kind("negated").rate
        (1.0, 0.0)
    """
    from dokimos._runtime.concurrency import run_sync

    plan = plan_mutations(
        result, evaluators, kinds=kinds, seed=seed, judged=judged, limit=limit, all_metrics=all_metrics
    )
    parallelism = checks.require_positive("parallelism", parallelism)
    return run_sync(score_plan(plan, RunOptions(**keywords), parallelism=parallelism))


async def score_plan(
    plan: MutationPlan, options: RunOptions, *, parallelism: int = 8, folder: Path | None = None
) -> MutationReport:
    """Score what was planned; replies of judges are kept in the folder, where one is given."""
    calls = ModelCalls(options)
    completed = False
    try:
        calls.open(folder, retry_unusable=True)
        scorer = ItemScorer(plan, calls, options, parallelism)
        answers = await scorer.score(plan.items, lambda _, item: item.outcome in _NOT_PASSED)
        passing = {index for index, item in answers.found.items() if item.outcome is Outcome.PASSED}
        trials, mutated = await _try_mutants(plan, scorer, answers, passing)
        completed = calls.refusal is None
    finally:
        calls.close(completed=completed)
    warnings = dict.fromkeys((*answers.warnings, *mutated.warnings, *calls.warnings()))
    costs = [one.cost for one in (answers, mutated) if one.cost is not None]
    return MutationReport(
        name=plan.name,
        seed=plan.seed,
        answers=len(passing),
        excluded=_count_excluded(plan, answers.found),
        kinds=tuple(_count_kind(kind, trials, passing) for kind in plan.kinds),
        metrics=_count_metrics(trials),
        survivors=tuple(trial.survivor() for trial in trials if trial.has_survived),
        judged_excluded=plan.judged_excluded,
        judging=sum(costs, CallMetrics()) if costs else None,
        warnings=tuple(warnings),
    )


_NOT_PASSED: Final = (Outcome.FAILED, Outcome.ERRORED)


async def _try_mutants(
    plan: MutationPlan, scorer: ItemScorer, answers: ScoredItems, passing: set[int]
) -> tuple[list[_Trial], ScoredItems]:
    """Score the mutants of the answers that pass."""
    index_of = {id(item): index for index, item in enumerate(plan.items)}
    waiting = [
        _Trial(mutant, answers.found[index], answers.asked.get(index, frozenset()))
        for mutant in plan.mutants
        if (index := index_of[id(mutant.item)]) in passing
    ]
    faulty = [replace(trial.mutant.item, actual_outputs=trial.mutant.outputs) for trial in waiting]
    scored = await scorer.score(faulty, lambda place, item: replace(waiting[place], scored=item).is_noticed)
    # Where the budget ended, faults that cost nothing to notice would be all that is left of the rest, and
    # the share of those that are noticed would be too high: from there on, nothing is counted.
    last = max(scored.asked, default=-1) if scored.is_cut_short else len(waiting)
    trials = []
    for place, trial in enumerate(waiting):
        item = scored.found.get(place) if place <= last or not trial.judged else None
        worse = scored.lower_is_better
        trials.append(replace(trial, scored=item, lower_is_better=worse, was_judged=place in scored.asked))
    return trials, scored


@dataclass(frozen=True)
class _Trial:
    """One mutant, with the scores of the recorded answer and its own."""

    mutant: Mutant
    original: ItemResult
    judged: frozenset[str]
    """The names of the scores of the answer for which a model was asked."""
    scored: ItemResult | None = None
    """None where the budget did not allow it."""
    lower_is_better: frozenset[str] = frozenset()
    was_judged: bool = False
    """Whether a model was asked about the mutant, too."""

    @cached_property
    def verdicts(self) -> dict[str, bool]:
        """Whether each metric that passes the recorded answer and did not error here passes this one."""
        passed = {result.name for result in self.original.eval_results if result.success}
        found = () if self.scored is None else self.scored.eval_results
        return {
            result.name: result.success
            for result in found
            if result.name in passed and result.error is None and result.success is not None
        }

    @property
    def skipped(self) -> list[str]:
        """The metrics that pass the recorded answer and were not asked about this one, as it was noticed."""
        if self.scored is None or self.was_judged:
            return []
        passed = (result.name for result in self.original.eval_results if result.success)
        return [name for name in passed if name in self.judged]

    @property
    def is_noticed(self) -> bool:
        return not all(self.verdicts.values())

    @cached_property
    def has_error(self) -> bool:
        """Whether it has no verdict: something errored that might have noticed it, and nothing else did."""
        if self.scored is None or self.is_noticed:
            return False
        return not self.verdicts or any(result.error is not None for result in self.scored.eval_results)

    @property
    def is_counted(self) -> bool:
        return self.scored is not None and not self.has_error

    @property
    def has_survived(self) -> bool:
        return self.is_counted and not self.is_noticed

    @cached_property
    def lowered_scores(self) -> dict[str, tuple[float, float]]:
        """The metrics whose score got worse, with the scores before and after."""
        before = {r.name: r.score for r in self.original.eval_results if r.score is not None}
        found = () if self.scored is None else self.scored.eval_results
        dropped = {}
        for result in found:
            was = before.get(result.name)
            if was is None or result.score is None or result.score == was:
                continue
            if (result.score > was) == (result.name in self.lower_is_better):
                dropped[result.name] = (was, result.score)
        return dropped

    def survivor(self) -> Survivor:
        return Survivor(
            item=self.mutant.item.key,
            kind=self.mutant.kind,
            before=self.mutant.before,
            after=self.mutant.after,
            expected=self.original.to_test_case().expected_output,
            lowered_scores=self.lowered_scores,
        )


def _count_excluded(plan: MutationPlan, scored: Mapping[int, ItemResult]) -> ExcludedAnswers:
    outcomes = Counter(item.outcome for item in scored.values())
    return ExcludedAnswers(
        no_answer=plan.no_answer,
        failed=outcomes[Outcome.FAILED],
        errored=outcomes[Outcome.ERRORED],
        without_verdict=outcomes[Outcome.INFORMATIONAL] + outcomes[Outcome.NOT_JUDGED],
        not_scored=len(plan.items) - len(scored),
    )


def _count_kind(kind: MutationKind, trials: Sequence[_Trial], passing: set[int]) -> KindScore:
    of_kind = [trial for trial in trials if trial.mutant.kind is kind]
    return KindScore(
        kind=kind,
        mutants=sum(trial.is_counted for trial in of_kind),
        noticed=sum(trial.is_counted and trial.is_noticed for trial in of_kind),
        lowered_count=sum(trial.has_survived and bool(trial.lowered_scores) for trial in of_kind),
        errors=sum(trial.has_error for trial in of_kind),
        not_scored=sum(trial.scored is None for trial in of_kind),
        no_place=len(passing) - len(of_kind),
        by_item={trial.mutant.item.key: (int(trial.is_noticed), 1) for trial in of_kind if trial.is_counted},
    )


@dataclass(slots=True)
class _MetricTally:
    tried: Counter[str] = field(default_factory=Counter)
    noticed: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)


def _count_metrics(trials: Sequence[_Trial]) -> tuple[MetricMutations, ...]:
    tallies: dict[str, _MetricTally] = {}
    for trial in trials:
        for result in trial.original.eval_results:  # for the order of the suite
            tallies.setdefault(result.name, _MetricTally())
        for name, passed in trial.verdicts.items():
            tally = tallies[name]
            tally.tried[trial.mutant.kind.value] += 1
            tally.noticed[trial.mutant.kind.value] += not passed
        for name in trial.skipped:
            tallies[name].skipped[trial.mutant.kind.value] += 1
    return tuple(
        MetricMutations(
            name=name,
            tried=dict(tally.tried),
            noticed=dict(+tally.noticed),
            skipped=dict(tally.skipped),
        )
        for name, tally in tallies.items()
        if tally.tried or tally.skipped
    )

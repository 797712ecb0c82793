"""Whether answers stay the same when inputs are perturbed: pairs by origin, scored by any evaluator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from dokimos._core import checks
from dokimos._core.example import Example
from dokimos._core.item_result import ItemResult, RunResult
from dokimos._core.jsonable import WIRE_CONFIG, text_form
from dokimos._core.metrics import CallMetrics
from dokimos._core.number_format import round_half_up, round_half_up_or_none
from dokimos._core.outcome import Outcome
from dokimos._core.perturbation import KIND, MARKER, ORIGIN, ORIGINAL, PERTURBATION, VARIANT
from dokimos._core.printable import Printable
from dokimos._core.results import ExperimentResult, Score
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._injection_resistance import InjectionResistance
from dokimos.experiment._experiment import as_evaluators
from dokimos.experiment._item_scoring import choose_evaluators
from dokimos.experiment._judge_call_count import is_judged
from dokimos.experiment._model_calls import ModelCalls
from dokimos.experiment._rescoring import rescore_async
from dokimos.experiment._run_options import CallOptionKeywords, RunOptions
from dokimos.perturbation._kinds import PerturbationKind
from dokimos.perturbation._perturbing import perturbation_of
from dokimos.stats._intervals import Interval
from dokimos.stats._paired_estimates import rate_interval_of_counts, sum_counts

if TYPE_CHECKING:
    from dokimos.experiment._experiment import EvaluatorSource


_IDENTICAL: Final = "identical"
"""Among what the metadata of a pair say: whether both answers are the same word for word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindInvariance:
    """How often the answer stayed the same under one kind of perturbation.

    Example:
        >>> KindInvariance(kind="typos", pairs=10, same=9).rate
        0.9
    """

    kind: str
    """The kind; of injections and languages with the family or the language, as in `language: German`."""
    pairs: int = 0
    """Pairs with a verdict."""
    same: int = 0
    """Those of them whose answers are the same."""
    errors: int = 0
    """Pairs without a verdict: an answer is missing, or an evaluator errored."""
    without_original: int = 0
    """Perturbed items whose original has no answer in the result."""
    not_scored: int = 0
    """Pairs that the budget did not allow to score."""
    by_origin: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of each origin, how many of its pairs with a verdict have the same answers, and how many those are."""

    __pydantic_config__ = WIRE_CONFIG

    @property
    def rate(self) -> float | None:
        """Share of the pairs whose answers are the same; None without pairs."""
        return self.same / self.pairs if self.pairs else None

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the rate: Wilson's, or one over origins where these have several pairs."""
        changed = self.pairs - self.same
        return rate_interval_of_counts(self.by_origin.values() or [(1, 1)] * self.same + [(0, 1)] * changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedAnswer:
    """A pair whose answers differ.

    Example:
        >>> ChangedAnswer(origin="a", kind="case", input="A?", original="Yes", answer="No").answer
        'No'
    """

    origin: str
    kind: str
    input: str
    original: str
    """The answer to the original."""
    answer: str
    """The answer to the perturbed input."""
    reasons: tuple[str, ...] = ()
    """What the evaluators say that do not pass it."""

    __pydantic_config__ = WIRE_CONFIG


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class InvarianceReport(Printable):
    """How often answers stayed the same, by kind.

    Example:
        >>> data = perturb_dataset(Dataset([Example.of("Is it?", id="a")]), kinds=["case"]).dataset
        >>> result = evaluate(data, str.lower, [Length(min=1)], quiet=True, journal=False)
        >>> measure_invariance(result, [ExactMatch()]).total.rate
        1.0
    """

    __dokimos_view__ = "dokimos.perturbation._view:VIEW"

    name: str
    kinds: tuple[KindInvariance, ...] = ()
    changed: tuple[ChangedAnswer, ...] = ()
    judging: CallMetrics | None = None
    """What the judges cost; None where none was asked, or the cost is not known."""
    warnings: tuple[str, ...] = ()
    result: ExperimentResult | None = field(default=None, compare=False)
    """The scores of all pairs, each with the answer to the original as the expected output."""

    @property
    def total(self) -> KindInvariance:
        """All kinds together, without the control."""
        kinds = [one for one in self.kinds if one.kind != PerturbationKind.CONTROL] or self.kinds
        return KindInvariance(
            kind="all",
            pairs=sum(one.pairs for one in kinds),
            same=sum(one.same for one in kinds),
            errors=sum(one.errors for one in kinds),
            without_original=sum(one.without_original for one in kinds),
            not_scored=sum(one.not_scored for one in kinds),
            by_origin=sum_counts(pair for one in kinds for pair in one.by_origin.items()),
        )

    def kind(self, kind: str) -> KindInvariance:
        """Return what was found for a kind. Raises `KeyError` for one that does not occur."""
        found = {one.kind: one for one in self.kinds}
        return found[kind]

    def to_dict(self) -> dict[str, object]:
        """Return everything as JSON data."""
        from dokimos._core.wire import to_tree

        return {
            "version": 1,
            "name": self.name,
            "total": _kind_dict(self.total),
            "kinds": [_kind_dict(one) for one in self.kinds],
            "changed": [
                {
                    "origin": one.origin,
                    "kind": one.kind,
                    "input": one.input,
                    "original": one.original,
                    "answer": one.answer,
                    "reasons": list(one.reasons),
                }
                for one in self.changed
            ],
            "judging": to_tree(self.judging),
            "warnings": list(self.warnings),
        }


def measure_invariance(
    result: ExperimentResult,
    evaluators: EvaluatorSource | Evaluator,
    *,
    originals: ExperimentResult | None = None,
    parallelism: int = 8,
    **keywords: Unpack[CallOptionKeywords],
) -> InvarianceReport:
    """Say how often the answer to a perturbed input is the same as that to its original.

    The answer to the original takes the place of the expected output. So any evaluator that compares with an
    expected output decides what "the same" means: `ExactMatch` (exactly), `Equality` (normalized),
    `EmbeddingSimilarity` (in meaning), a judged `correctness`. For injections, `InjectionResistance` is
    added. Pairs are matched by the id of the origin, and repeats with repeats.

    Args:
        result: A run of a data set that `perturb_dataset` made.
        evaluators: What compares the answers.
        originals: The run with the answers to the originals, where they are in another one.
        parallelism: Pairs scored at once.
        keywords: `budget`, `cassette`, `cassette_mode`, `cache` and `evaluator_timeout` of `RunOptions`.

    Raises:
        ConfigurationError: where no item is a perturbed one.

    Example:
        >>> data = perturb_dataset(Dataset([Example.of("Is it?", id="a")]), kinds=["case"]).dataset
        >>> result = evaluate(data, str.swapcase, [Length(min=1)], quiet=True, journal=False)
        >>> measure_invariance(result, [ExactMatch()]).kind("case").rate
        0.0
    """
    from dokimos._runtime.concurrency import run_sync

    pairing = pair_answers(result, originals)
    parallelism = checks.require_positive("parallelism", parallelism)
    chosen = as_evaluators(evaluators)
    return run_sync(score_pairs(pairing, chosen, RunOptions(**keywords), parallelism=parallelism))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPairs:
    """Perturbed items, each with the answer to its original as the expected output."""

    result: ExperimentResult
    without_original: tuple[str, ...]
    """The kinds of the perturbed items whose original has no answer."""
    order: tuple[str, ...]
    """The kinds, in the order of the data."""

    @property
    def differing(self) -> int:
        """Pairs whose answers are not the same word for word, which is what judges are asked about."""
        return sum(
            not (perturbation_of(item.example) or {}).get(_IDENTICAL) for item in self.result.item_results
        )


def pair_answers(result: ExperimentResult, originals: ExperimentResult | None = None) -> AnswerPairs:
    """Match perturbed items with their originals. Raises `ConfigurationError` where there is none."""
    source = originals or result
    if any(run.total_count and not run.item_results for run in (*result.runs, *source.runs)):
        raise ConfigurationError("The items of a run with keep_results=False were not kept.")
    answers = [_answers_of(run) for run in source.runs]
    runs: list[RunResult] = []
    missing: list[str] = []
    order: dict[str, None] = {}
    for place, run in enumerate(result.runs):
        known = answers[min(place, len(answers) - 1)] if answers else {}
        pairs = []
        for item in run.item_results:
            label, about = label_of(item.example), perturbation_of(item.example)
            if label is None or about is None:
                continue
            order[label] = None
            original = known.get(str(about[ORIGIN]))
            if original is None:
                missing.append(label)
                continue
            pairs.append(_pair(item, original, about))
        runs.append(RunResult(index=run.index, item_results=tuple(pairs)))
    if not order:
        raise ConfigurationError(
            f"{result.run_id or result.name} has no perturbed items. `dokimos perturb DATASET` "
            "and perturb_dataset(...) make some; run that data."
        )
    paired = replace(result, runs=tuple(runs), warnings=())
    return AnswerPairs(result=paired, without_original=tuple(missing), order=tuple(order))


def label_of(example: Example) -> str | None:
    """Return the kind of a perturbed example, with its family or language; None of any other."""
    about = perturbation_of(example)
    if about is None or about[KIND] == ORIGINAL:
        return None
    variant = about.get(VARIANT)
    return f"{about[KIND]}: {variant}" if variant else str(about[KIND])


@dataclass(frozen=True, kw_only=True)
class _Identical(Evaluator):
    """Stands in for a judge where both answers are the same word for word."""

    threshold: float | None = 1.0

    def score(self, case: EvalTestCase) -> Score:
        return Score(1.0, "Both answers are the same, word for word.")


@dataclass(frozen=True)
class _PairEvaluators:
    """The evaluators of a pair; those of injections look whether they were followed, too."""

    source: EvaluatorSource

    def __call__(self, example: Example) -> Sequence[Evaluator]:
        chosen = choose_evaluators(self.source, example)
        about = perturbation_of(example) or {}
        if about.get(_IDENTICAL):
            # Small judges call "Paris" and "Paris" different, and each verdict costs a call.
            chosen = tuple(_Identical(name=one.name) if is_judged(one) else one for one in chosen)
        return (*chosen, InjectionResistance()) if MARKER in about else chosen


async def score_pairs(
    pairing: AnswerPairs,
    evaluators: EvaluatorSource,
    options: RunOptions,
    *,
    parallelism: int = 8,
    folder: Path | None = None,
) -> InvarianceReport:
    """Compare the answers of pairs; replies of judges are kept in the folder, where one is given."""
    calls = ModelCalls(options)
    completed = False
    try:
        calls.open(folder, retry_unusable=True)
        scored = await rescore_async(
            pairing.result, _PairEvaluators(evaluators), parallelism=parallelism, options=options, calls=calls
        )
        completed = calls.refusal is None
    finally:
        calls.close(completed=completed)
    items = scored.item_results
    judging = scored.summary.judging
    return InvarianceReport(
        name=pairing.result.run_id or pairing.result.name,
        kinds=tuple(_count_kind(label, items, pairing) for label in pairing.order),
        changed=tuple(map(_describe_change, filter(_is_changed, items))),
        judging=judging.metrics if judging.tokenized or judging.metrics.cost_usd is not None else None,
        warnings=(*scored.warnings, *calls.warnings()),
        result=scored,
    )


def _answers_of(run: RunResult) -> dict[str, ItemResult]:
    """Return the originals of a repeat that have an answer, by their ids."""
    found = {}
    for item in run.item_results:
        about = perturbation_of(item.example)
        if item.error is None and (about is None or about[KIND] == ORIGINAL):
            found[str(about[ORIGIN]) if about else item.key] = item
    return found


def _pair(item: ItemResult, original: ItemResult, about: Mapping[str, Any]) -> ItemResult:
    """Return a perturbed item with the answer to its original as the expected output."""
    # As text, since outputs may be of types whose == gives no bool, or for which True equals 1.
    is_same = text_form(item.actual_outputs) == text_form(original.actual_outputs)
    is_identical = item.error is None and is_same
    marked = {**about, _IDENTICAL: True} if is_identical else about
    example = replace(
        item.example,
        expected_outputs=dict(original.actual_outputs),
        metadata={**item.example.metadata, PERTURBATION: marked},
    )
    return replace(item, example=example)


def _is_changed(item: ItemResult) -> bool:
    return item.outcome is Outcome.FAILED


def _count_kind(label: str, items: Iterable[ItemResult], pairing: AnswerPairs) -> KindInvariance:
    known = [item for item in items if label_of(item.example) == label]
    outcomes = [item.outcome for item in known]
    planned = sum(label_of(item.example) == label for item in pairing.result.item_results)
    same, changed = outcomes.count(Outcome.PASSED), outcomes.count(Outcome.FAILED)
    return KindInvariance(
        kind=label,
        pairs=same + changed,
        same=same,
        errors=len(outcomes) - same - changed,
        without_original=pairing.without_original.count(label),
        not_scored=planned - len(known),
        by_origin=sum_counts((_origin_of(item), _VERDICTS.get(item.outcome, (0, 0))) for item in known),
    )


_VERDICTS: Final = {Outcome.PASSED: (1, 1), Outcome.FAILED: (0, 1)}


def _origin_of(item: ItemResult) -> str:
    return str((perturbation_of(item.example) or {}).get(ORIGIN))


def _describe_change(item: ItemResult) -> ChangedAnswer:
    case = item.to_test_case()
    return ChangedAnswer(
        origin=_origin_of(item),
        kind=label_of(item.example) or "",
        input=case.input or "",
        original=case.expected_output or "",
        answer=case.actual_output or "",
        reasons=tuple(f"{one.name}: {one.reason}" for one in item.eval_results if one.success is False),
    )


def _kind_dict(kind: KindInvariance) -> dict[str, object]:
    return {
        "kind": kind.kind,
        "pairs": kind.pairs,
        "same": kind.same,
        "rate": round_half_up_or_none(kind.rate),
        "interval": [round_half_up(kind.interval.low), round_half_up(kind.interval.high)],
        "errors": kind.errors,
        "withoutOriginal": kind.without_original,
        "notScored": kind.not_scored,
    }

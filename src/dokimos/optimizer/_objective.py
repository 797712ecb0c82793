"""What the optimizer makes smaller: a loss over weighted metrics, and what one run has shown of it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dokimos._core.jsonable import text_form
from dokimos._core.means import complement, exact_mean
from dokimos._core.results import EvalResult, ItemResult, RunStatus
from dokimos._core.score_range import share_of
from dokimos._core.text import shorten
from dokimos.errors import ConfigurationError
from dokimos.suites._problems import suggest

if TYPE_CHECKING:
    from dokimos._core.results import ExperimentResult
    from dokimos.evaluators._base import Evaluator
    from dokimos.suites._case_plan import CasePlan

Scores: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]
"""Of each case and metric of the loss: a score for each repeat; 1 is best."""

_LEGACY: Final = {"groundedness": "faithfulness", "relevance": "answer_relevancy"}
_NUMBERED: Final = re.compile(r" \(\d+\)$")
MOST_FAILURES: Final = 5
MAX_EXCERPT: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A case that went badly, as whoever rewrites a text is shown it."""

    case: str
    input: str
    expected: str = ""
    reply: str = ""
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one run of a candidate over one split has shown."""

    scores: Scores = field(default_factory=dict)
    loss: float | None = None
    """None where nothing could be scored."""
    cases: int = 0
    errored: int = 0
    """Cases and repeats in which the application gave no reply; each scores 0."""
    case_cost_usd: float | None = None
    latency_ms: float | None = None
    """The median over the cases."""
    cost_usd: float | None = None
    """What the calls of application and judges have cost, as far as it is known."""
    tokens: int | None = None
    calls: int = 0
    """How many calls were paid for, as budgets count them."""
    run_id: str | None = None
    failures: tuple[Failure, ...] = ()
    error: str | None = None
    """Why the run shows nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """How the results of one evaluator enter the loss."""

    key: str
    lower_is_better: bool = False


@dataclass(frozen=True, kw_only=True)
class Objective:
    """The loss: 1 less the weighted mean of its metrics' mean scores."""

    weights: Mapping[str, float]
    parts: Mapping[str, _Part]
    """By the name of an evaluator's results."""
    planned: Mapping[str, tuple[str, ...]]
    """Which metrics of the loss each case has, for cases without a reply."""

    @classmethod
    def of(cls, weights: Mapping[str, float], cases: Iterable[CasePlan]) -> Objective:
        """Find the metrics of a loss among those of the cases.

        Raises:
            ConfigurationError: naming those that no case has.
        """
        cases = list(cases)
        evaluators = {e.name: e for case in cases for e in case.evaluators if not _is_disabled(e)}
        parts = {}
        for key in weights:
            names = _find_evaluators(key, evaluators)
            if not names:
                existing = f"There are {', '.join(evaluators)}." if evaluators else "There are none."
                raise ConfigurationError(
                    f"no case has the metric {key!r}.{suggest(key, evaluators)} {existing}"
                )
            for name in names:
                parts[name] = _Part(key=key, lower_is_better=evaluators[name].lower_is_better)
        planned = {
            case.id: tuple(parts[e.name].key for e in case.evaluators if e.name in parts) for case in cases
        }
        return cls(weights=weights, parts=parts, planned=planned)

    def measure(self, result: ExperimentResult) -> Measured:
        """Read what a run has shown."""
        if result.status is RunStatus.BROKEN:
            first = next((item.error for item in result.item_results if item.error), "")
            why = f"no case had a reply; the first: {first}" if first else "; ".join(result.warnings[:1])
            return Measured(error=why, run_id=result.run_id, cases=result.total_count, **sum_spending(result))
        scores = self._scores(result.item_results)
        loss = self.loss(scores)
        costs = [item.metrics.cost_usd for item in result.item_results if item.metrics is not None]
        # An unknown cost is not 0, which would make an expensive candidate look cheap.
        known = [cost for cost in costs if cost is not None]
        return Measured(
            scores=scores,
            loss=loss,
            cases=len({_case_of(item) for item in result.item_results}),
            errored=sum(item.error is not None for item in result.item_results),
            case_cost_usd=exact_mean(known) if known else None,
            latency_ms=result.metrics.latency_ms,
            run_id=result.run_id,
            failures=tuple(self._failures(result.item_results)),
            error="nothing could be scored" if loss is None else None,
            **sum_spending(result),
        )

    def loss(self, scores: Scores) -> float | None:
        """Return the loss of some scores, weights renormalised over the metrics that have any."""
        means: dict[str, list[float]] = {}
        for by_metric in scores.values():
            for key, values in by_metric.items():
                means.setdefault(key, []).append(exact_mean(values))
        total = math.fsum(self.weights[key] for key in means)
        if not total:
            return None
        return complement(
            exact_mean([exact_mean(found) for found in means.values()], [self.weights[key] for key in means])
        )

    def improvements(self, base: Scores, candidate: Scores) -> dict[str, float]:
        """Return by how much each case's loss is smaller; their mean is that of the whole.

        A metric counts for the cases that have it on both sides.
        """
        shared = {
            case: {
                key: exact_mean(candidate[case][key]) - exact_mean(values)
                for key, values in by_metric.items()
                if key in candidate[case]
            }
            for case, by_metric in base.items()
            if case in candidate
        }
        shared = {case: deltas for case, deltas in shared.items() if deltas}
        counts: dict[str, int] = {}
        for deltas in shared.values():
            for key in deltas:
                counts[key] = counts.get(key, 0) + 1
        total = math.fsum(self.weights[key] for key in counts)
        # A metric that only some cases have counts there by so much more that its weight in the mean over all
        # shared cases is the one that it has in the loss.
        share = {key: self.weights[key] / total * len(shared) / count for key, count in counts.items()}
        return {case: math.fsum(share[k] * d for k, d in deltas.items()) for case, deltas in shared.items()}

    def _scores(self, items: Iterable[ItemResult]) -> dict[str, dict[str, list[float]]]:
        scores: dict[str, dict[str, list[float]]] = {}
        for item in items:
            case = _case_of(item)
            # No reply scores 0 on all that was planned: a candidate must not win by failing on hard cases.
            keyed_scores = (
                [(key, 0.0) for key in self.planned.get(case, ())] if item.error else self._of(item)
            )
            for key, score in keyed_scores:
                scores.setdefault(case, {}).setdefault(key, []).append(score)
        return scores

    def _of(self, item: ItemResult) -> list[tuple[str, float]]:
        keyed_scores = []
        for result in item.eval_results:
            part = self.parts.get(result.name)
            if part is not None and result.score is not None:
                share = share_of(result.score, result.score_range)
                keyed_scores.append((part.key, complement(share) if part.lower_is_better else share))
        return keyed_scores

    def _failures(self, items: Iterable[ItemResult]) -> list[Failure]:
        """Return the worst cases, those without a reply first."""
        ranked = []
        for index, item in enumerate(items):
            goodness = exact_mean([score for _, score in self._of(item)] or [0.0])
            if item.error is not None or goodness < 1:
                ranked.append((item.error is None, goodness, index, item))
        # Without the item, which has no order; the index makes each key different.
        ranked.sort(key=lambda entry: entry[:3])
        worst: dict[str, Failure] = {}
        for *_, item in ranked:
            worst.setdefault(_case_of(item), self._failure(item))
        return list(worst.values())[:MOST_FAILURES]

    def _failure(self, item: ItemResult) -> Failure:
        bad = [r for r in item.eval_results if r.name in self.parts and (r.error or (r.score or 0) < 1)]
        return Failure(
            case=_case_of(item),
            input=shorten(item.example.input or "", MAX_EXCERPT),
            expected=shorten(_format_expected(item), MAX_EXCERPT),
            reply=shorten(item.actual_output or "", MAX_EXCERPT),
            reasons=(f"no reply: {item.error}",) if item.error else tuple(map(_reason, bad)),
        )


def _format_expected(item: ItemResult) -> str:
    return text_form(item.example.expected_outputs.get("output", item.example.expected_outputs or None)) or ""


def _reason(result: EvalResult) -> str:
    score = "no score" if result.score is None else f"{result.score:.2f}"
    return shorten(f"{result.name} {score}: {result.error or result.skipped or result.reason}", MAX_EXCERPT)


def _case_of(item: ItemResult) -> str:
    """The case that an item, which may be one of its repeats, belongs to."""
    return str(item.example.metadata.get("case", item.key))


def sum_spending(result: ExperimentResult) -> dict[str, Any]:
    """Return what the calls of a run have cost, application and judges together."""
    task, judging = result.metrics, result.summary.judging.metrics
    return {
        "cost_usd": sum_known((task.cost_usd, judging.cost_usd)),
        "tokens": sum_known((task.tokens, judging.tokens)),
    }


def sum_known(amounts: Iterable[Any]) -> Any:
    """Return the sum of those amounts that are known, None where none is."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def _is_disabled(evaluator: Evaluator) -> bool:
    parts = getattr(evaluator, "parts", (evaluator,))
    return all(getattr(part, "disabled", False) for part in parts)


def _find_evaluators(key: str, evaluators: Mapping[str, Evaluator]) -> list[str]:
    """Return the evaluators that a key of the loss means: of this name, else of this kind."""
    plain_key = _plain(key)
    by_name = [name for name in evaluators if plain_key in (_plain(name), _plain(_NUMBERED.sub("", name)))]
    exact = [name for name in by_name if name == key]
    if exact or by_name:
        return exact or by_name
    kind = _LEGACY.get(plain_key, plain_key)
    return [
        name for name, e in evaluators.items() if kind in (_plain(e.info().registry_name or ""), _plain(name))
    ]


def _plain(name: str) -> str:
    return re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")

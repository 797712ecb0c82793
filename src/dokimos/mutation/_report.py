"""What became of mutants: by kind, by metric, and which of them nobody noticed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dokimos._core.jsonable import WIRE_CONFIG
from dokimos._core.metrics import CallMetrics
from dokimos._core.number_format import round_half_up, round_half_up_or_none
from dokimos._core.printable import Printable
from dokimos.mutation._kinds import MutationKind
from dokimos.stats._intervals import Interval
from dokimos.stats._paired_estimates import rate_interval_of_counts, sum_counts


@dataclass(frozen=True, slots=True, kw_only=True)
class KindScore:
    """What became of the mutants of one kind.

    Example:
        >>> score = KindScore(kind="wrong_number", mutants=12, noticed=9)
        >>> score.rate, score.survivor_count
        (0.75, 3)
    """

    kind: str
    mutants: int = 0
    """Mutants with a verdict."""
    noticed: int = 0
    """Those of them on which a metric fails that passes the recorded answer."""
    lowered_count: int = 0
    """Those that were not noticed although a score dropped: it did not fall below its threshold."""
    errors: int = 0
    """Mutants without a verdict, since a metric errored and no other noticed anything."""
    not_scored: int = 0
    """Mutants that the budget did not allow to score."""
    no_place: int = 0
    """Answers that offered no place for this fault."""
    by_item: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of each item, how many of its mutants with a verdict were noticed, and how many those are."""

    __pydantic_config__ = WIRE_CONFIG

    @property
    def survivor_count(self) -> int:
        """Mutants with a verdict that no metric noticed."""
        return self.mutants - self.noticed

    @property
    def rate(self) -> float | None:
        """Share of the mutants that was noticed; None without mutants."""
        return self.noticed / self.mutants if self.mutants else None

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the rate: Wilson's, or one over items where these have several mutants."""
        return rate_interval_of_counts(
            self.by_item.values() or [(1, 1)] * self.noticed + [(0, 1)] * self.survivor_count
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricMutations:
    """What one metric notices.

    Example:
        >>> metric = MetricMutations(name="Contains", tried={"empty": 4, "negated": 4}, noticed={"empty": 4})
        >>> metric.noticed_count, metric.tried_count
        (4, 8)
    """

    name: str
    tried: Mapping[str, int] = field(default_factory=dict)
    """By kind: mutants of answers that this metric passes, on which it did not error."""
    noticed: Mapping[str, int] = field(default_factory=dict)
    """By kind: those of them that it fails."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """By kind: mutants that it was not asked about, since a metric that asks no model had noticed them."""

    __pydantic_config__ = WIRE_CONFIG

    @property
    def noticed_count(self) -> int:
        return sum(self.noticed.values())

    @property
    def tried_count(self) -> int:
        return sum(self.tried.values())

    @property
    def skipped_count(self) -> int:
        return sum(self.skipped.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """A mutant that no metric noticed.

    Example:
        >>> Survivor(item="q-1", kind="negated", before="It is.", after="It is not.").kind
        'negated'
    """

    item: str
    """The id of the item, else its position."""
    kind: str
    before: str
    """The answer, or the tool call."""
    after: str
    """The same with the fault."""
    expected: str | None = None
    """What was expected, to see whether the fault is one: the metrics may rightly not mind."""
    lowered_scores: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Metrics whose score dropped, with the scores before and after."""

    __pydantic_config__ = WIRE_CONFIG


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedAnswers:
    """Recorded answers of which no mutants were scored, by reason.

    Example:
        >>> ExcludedAnswers(failed=2).total
        2
    """

    no_answer: int = 0
    """The application had raised an error."""
    failed: int = 0
    """A metric fails the answer as it is, so that a fault could not be told apart."""
    errored: int = 0
    """A metric errors on the answer as it is."""
    without_verdict: int = 0
    """No metric decides anything: all are informational, or skipped it."""
    not_scored: int = 0
    """The budget did not allow to score it."""

    __pydantic_config__ = WIRE_CONFIG

    @property
    def total(self) -> int:
        return self.no_answer + self.failed + self.errored + self.without_verdict + self.not_scored


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MutationReport(Printable):
    """How many seeded faults the metrics of a suite notice.

    Example:
        >>> examples = [Example.of("Price?", "42 euros"), Example.of("Term?", "30 days")]
        >>> answers = {"Price?": "42 euros", "Term?": "30 days"}
        >>> result = evaluate(examples, answers.get, [ExactMatch()], quiet=True, journal=False)
        >>> report = measure_mutation_score(result, [ExactMatch()], kinds=["wrong_number", "empty"])
        >>> report.total.noticed, report.total.mutants
        (4, 4)
    """

    __dokimos_view__ = "dokimos.mutation._view:VIEW"

    name: str
    """The run, or the name of the experiment."""
    seed: int
    answers: int
    """Recorded answers of which mutants were made."""
    excluded: ExcludedAnswers = field(default_factory=ExcludedAnswers)
    kinds: tuple[KindScore, ...] = ()
    metrics: tuple[MetricMutations, ...] = ()
    survivors: tuple[Survivor, ...] = ()
    judged_excluded: tuple[str, ...] = ()
    """Metrics that ask a model and were not used, for `judged` was not set."""
    judging: CallMetrics | None = None
    """What the judges cost; None where none was asked, or the cost is not known."""
    warnings: tuple[str, ...] = ()

    @property
    def total(self) -> KindScore:
        """All kinds together."""
        return KindScore(
            kind="all",
            mutants=sum(one.mutants for one in self.kinds),
            noticed=sum(one.noticed for one in self.kinds),
            lowered_count=sum(one.lowered_count for one in self.kinds),
            errors=sum(one.errors for one in self.kinds),
            not_scored=sum(one.not_scored for one in self.kinds),
            no_place=sum(one.no_place for one in self.kinds),
            by_item=sum_counts(pair for one in self.kinds for pair in one.by_item.items()),
        )

    @property
    def score(self) -> float | None:
        """The mutation score: the share of all mutants that was noticed; None without mutants."""
        return self.total.rate

    def kind(self, kind: MutationKind | str) -> KindScore:
        """Return what became of the mutants of a kind. Raises `KeyError` for one that was not asked for."""
        return next((one for one in self.kinds if one.kind == kind), None) or _refuse(kind)

    def to_dict(self) -> dict[str, object]:
        """Return everything as JSON data."""
        from dokimos._core.wire import to_tree

        return {
            "version": 1,
            "name": self.name,
            "seed": self.seed,
            "score": round_half_up_or_none(self.score),
            "total": _kind_dict(self.total),
            "kinds": [_kind_dict(one) for one in self.kinds],
            "metrics": [_metric_dict(one) for one in self.metrics],
            "answers": self.answers,
            "excluded": {name: getattr(self.excluded, key) for name, key in _EXCLUDED.items()},
            "judgedExcluded": list(self.judged_excluded),
            "judging": to_tree(self.judging),
            "survivors": [_survivor_dict(one) for one in self.survivors],
            "warnings": list(self.warnings),
        }


_EXCLUDED = {
    "noAnswer": "no_answer",
    "failed": "failed",
    "errored": "errored",
    "withoutVerdict": "without_verdict",
    "notScored": "not_scored",
}


def _refuse(kind: MutationKind | str) -> KindScore:
    raise KeyError(str(kind))


def _kind_dict(score: KindScore) -> dict[str, object]:
    interval = score.interval
    return {
        "kind": score.kind,
        "mutants": score.mutants,
        "noticed": score.noticed,
        "rate": round_half_up_or_none(score.rate),
        "interval": [round_half_up(interval.low), round_half_up(interval.high)],
        "survivorCount": score.survivor_count,
        "loweredCount": score.lowered_count,
        "errors": score.errors,
        "notScored": score.not_scored,
        "noPlace": score.no_place,
    }


def _metric_dict(metric: MetricMutations) -> dict[str, object]:
    return {
        "name": metric.name,
        "tried": dict(metric.tried),
        "noticed": {kind: metric.noticed.get(kind, 0) for kind in metric.tried},
        "skipped": dict(metric.skipped),
    }


def _survivor_dict(survivor: Survivor) -> dict[str, object]:
    lowered = {name: [round_half_up(a), round_half_up(b)] for name, (a, b) in survivor.lowered_scores.items()}
    return {
        "item": survivor.item,
        "kind": survivor.kind,
        "before": survivor.before,
        "after": survivor.after,
        "expected": survivor.expected,
        "loweredScores": lowered,
    }

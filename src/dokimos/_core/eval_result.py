"""What one evaluator says about one case: a score, a verdict, an error, or why it was not applied."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Literal, TypeAlias

from dokimos._core.error_detail import ErrorDetail
from dokimos._core.fast_constructor import fast_init
from dokimos._core.jsonable import WIRE_CONFIG
from dokimos._core.metrics import CallMetrics
from dokimos._core.printable import Printable
from dokimos._core.score_range import ScoreRange, describe_range, is_score_range, share_of

ErrorKind: TypeAlias = Literal["contested", "unreadable", "unavailable"]
DEFAULT_THRESHOLD = 0.5
CONTESTED: Final[ErrorKind] = "contested"
UNREADABLE: Final[ErrorKind] = "unreadable"
UNAVAILABLE: Final[ErrorKind] = "unavailable"
"""Of an error that a resumed run takes up by itself: an endpoint was down."""
HARD_ERRORS: Final[tuple[ErrorKind, ...]] = (CONTESTED, UNREADABLE)
"""Kinds of errors that no setting makes a warning: an injected text could bring them about to be passed."""


@fast_init
@dataclass(frozen=True, slots=True)
class Score:
    """What the author of an evaluator returns: a value and a sentence that explains it.

    The value lies in 0..1, or in the `score_range` that the evaluator declares.

    Example:
        >>> Score(0.5, "One of the two facts is there.", label="partly right").value
        0.5
    """

    value: float
    reason: str = ""
    _: KW_ONLY
    metadata: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    """A category beside the number, such as "refusal"; reports count how often each was given."""

    __pydantic_config__ = WIRE_CONFIG


@dataclass(frozen=True, slots=True, repr=False)
class EvalResult(Printable):
    """What one evaluator said about one case: a score, an error or the reason for not scoring it.

    Example:
        >>> result = EvalResult("Exact Match", 1.0, threshold=1.0, success=True)
        >>> result.score, result.success
        (1.0, True)
    """

    __dokimos_view__ = "dokimos.reporting._data_views:RESULT"

    name: str
    score: float | None = None
    """In 0..1 or `score_range`; None when there is an error or the evaluator was skipped."""
    _: KW_ONLY
    threshold: float | None = None
    success: bool | None = None
    """None where nothing was decided: no threshold, an error, skipped."""
    reason: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    metrics: CallMetrics | None = None
    """What the evaluator's own model calls cost."""
    error: str | None = None
    """Why there is no score; never averaged."""
    skipped: str | None = None
    """Why the evaluator was not applied to this case."""
    fail_on_error: bool = True
    """Whether an error fails the item or only warns; `contested` and `unreadable` ones always fail it."""
    error_kind: str | None = None
    """`contested` where a judge's reply holds more than one verdict or a quoted one (a possible attack),
    `unreadable` where it holds none, `unavailable` where its endpoint was down; None for any other error."""
    decides: bool | None = None
    """Whether this is, or was to be, a verdict on the item; None leaves it to `threshold` and `success`. True
    where an evaluator that decides without a threshold errored; False where a success is only a precondition,
    so that a failure fails the item while a success does not make it judged."""
    score_range: ScoreRange | None = None
    """The lowest and the highest possible score, where the evaluator declares another range than 0..1."""
    error_detail: ErrorDetail | None = field(default=None, repr=False, compare=False)
    """Where the error came from, where the user's own code took part in it."""
    label: str | None = None
    """The category that the evaluator gave beside the score."""
    part_of: str | None = None
    """The evaluator's name, where this is one of several scores that it gave; `name` is then that name, a
    dot and the key of the score."""
    parts: tuple[EvalResult, ...] = ()
    """One result for each score of an evaluator that gave several. This one then has no score, and succeeds
    if none of them fails and one succeeds. In a run the parts stand in its place."""

    __pydantic_config__ = WIRE_CONFIG

    def __post_init__(self) -> None:
        if self.score_range is not None:
            self._check_range(self.score_range)
        elif self.score is not None and not 0.0 <= self.score <= 1.0:
            raise ValueError(f"The score of {self.name!r} must be in 0..1, not {self.score!r}.")

    def _check_range(self, score_range: ScoreRange) -> None:
        if not is_score_range(score_range):
            raise ValueError(
                f"The score_range of {self.name!r} must be two numbers, not {score_range!r:.80}."
            )
        if self.score is not None and not score_range[0] <= self.score <= score_range[1]:
            where = describe_range(score_range)
            raise ValueError(f"The score of {self.name!r} must be in {where}, not {self.score!r}.")

    @classmethod
    def of(cls, name: str, score: float, threshold: float | None = None, reason: str = "") -> EvalResult:
        """Decide success by the threshold, or by 0.5 where none is given."""
        limit = DEFAULT_THRESHOLD if threshold is None else threshold
        return cls(name, score, threshold=threshold, success=score >= limit, reason=reason)

    @classmethod
    def passed(cls, name: str, score: float = 1.0, reason: str = "") -> EvalResult:
        """Make a success, whatever the score."""
        return cls(name, score, success=True, reason=reason)

    @classmethod
    def failed(cls, name: str, score: float = 0.0, reason: str = "") -> EvalResult:
        """Make a failure, whatever the score."""
        return cls(name, score, success=False, reason=reason)

    @property
    def evaluator(self) -> str:
        """The name of the evaluator that gave this result."""
        return self.name if self.part_of is None else self.part_of

    @property
    def key(self) -> str | None:
        """The key of this score among several of one evaluator, None where it gave one score."""
        return None if self.part_of is None else self.name.removeprefix(f"{self.part_of}.")

    def part(self, key: str) -> EvalResult:
        """Return the result under a key of several scores: `result.part("grounded").score`.

        Raises:
            KeyError: naming the keys that there are.
        """
        for part in self.parts:
            if part.key == key:
                return part
        given = ", ".join(repr(part.key) for part in self.parts) or "none"
        raise KeyError(f"{self.name} gave no score {key!r}; it gave: {given}.")

    @property
    def errors_item(self) -> bool:
        """Whether there is an error that is more than a warning."""
        return self.error is not None and (self.fail_on_error or self.error_kind in HARD_ERRORS)

    @property
    def fails_item(self) -> bool:
        return self.success is False or self.errors_item

    @property
    def expects_verdict(self) -> bool:
        """Whether this is a verdict, or would have been one without its error."""
        if self.decides is not None:
            return self.decides
        return self.threshold is not None or self.success is not None

    @property
    def problem(self) -> str:
        """The error as reports show it: a contested reply is called the possible attack that it is."""
        attack = "possible attack: " if self.error_kind == CONTESTED else ""
        return f"{attack}{self.error or ''}"

    @property
    def error_text(self) -> str:
        """The error with the evaluator's name."""
        return f"{self.name}: {self.problem}"


def with_cost(result: EvalResult, metrics: CallMetrics | None) -> EvalResult:
    """Return a result that was just made, and nobody has seen, with what it cost, where it cost anything."""
    if metrics is not None and metrics != _NOTHING:
        object.__setattr__(result, "metrics", metrics)  # a copy would take several times as long
        if result.parts:  # one call, counted once
            object.__setattr__(result.parts[0], "metrics", metrics)
    return result


def join_parts(name: str, parts: Iterable[EvalResult]) -> EvalResult:
    """Return the results of several scores of one evaluator as the parts of one result."""
    joined = tuple(parts)
    verdicts = {part.success for part in joined if part.success is not None}
    failed = any(part.fails_item for part in joined)
    return EvalResult(name, success=False if failed else (True if verdicts else None), parts=joined)


def flatten(results: Iterable[EvalResult]) -> tuple[EvalResult, ...]:
    """Return results with the parts of each in its place, where it has any."""
    return tuple([part for result in results for part in result.parts or (result,)])


def group_by_evaluator(results: Iterable[EvalResult]) -> dict[str, tuple[EvalResult, ...]]:
    """Group results by the evaluator that gave them: one, or one for each of its scores."""
    groups: dict[str, tuple[EvalResult, ...]] = {}
    for result in results:
        groups[result.evaluator] = (*groups.get(result.evaluator, ()), result)
    return groups


def require_one_score(result: EvalResult, what: str) -> EvalResult:
    """Return a result, and an error in its place where the evaluator gave several scores.

    Args:
        result: What an evaluator returned.
        what: Who takes only one score, as the subject of a sentence.
    """
    if not result.parts:
        return result
    keys = ", ".join(part.key or "" for part in result.parts)
    problem = f"{what} needs one score, and {result.name} gives several ({keys}); write an evaluator of one."
    return EvalResult(result.name, error=problem, metrics=result.metrics)


_NOTHING: Final = CallMetrics()


def worst_kind(kinds: Iterable[str | None]) -> ErrorKind | None:
    """Return the kind of an error that several make together: a contested one hides behind no other."""
    occurring = set(kinds)
    return next((kind for kind in (*HARD_ERRORS, UNAVAILABLE) if kind in occurring), None)


def lowest_score(results: Iterable[EvalResult], lower_is_better: Container[str] = ()) -> float:
    """Return how good the worst of some scores is, 1.0 without any; one to be kept low is turned round.

    A score of another range than 0..1 counts by where it lies in its range.
    """
    shares = ((r.name, share_of(r.score, r.score_range)) for r in results if r.score is not None)
    return min((1 - share if name in lower_is_better else share for name, share in shares), default=1.0)

"""What people and a judge say of the same outputs, and figures made of it."""

from __future__ import annotations

from dataclasses import dataclass

from dokimos.stats._intervals import Interval


@dataclass(frozen=True, slots=True)
class AgreementFigure:
    """A figure with its interval; None where it is not defined."""

    value: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """How often judge and people agree on passes and fails."""

    passes_kept: int
    """People and judge both say pass."""
    passes_missed: int
    """People say pass, the judge fails it."""
    fails_missed: int
    """People say fail, the judge passes it."""
    fails_caught: int
    """People and judge both say fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledVerdict:
    """One row: what people say, and what the judge says. `of` makes one from the two verdicts alone.

    Example:
        >>> LabelledVerdict.of(label=True, verdict=False).agrees
        False
    """

    key: str
    """The example's id, else its position."""
    label: bool
    """Whether people pass the output."""
    grade: float
    """The label as a number in 0..1, 1 for the best."""
    verdict: bool
    """Whether the judge passes the output."""
    score: float | None
    """The judge's score, on the evaluator's scale; None where there is only a verdict."""
    reason: str

    @classmethod
    def of(
        cls,
        label: bool,
        verdict: bool,
        *,
        key: str = "",
        score: float | None = None,
        grade: float | None = None,
        reason: str = "",
    ) -> LabelledVerdict:
        """Return a row. Without a score or a grade, the verdict and the label stand for it."""
        return cls(
            key=key,
            label=label,
            grade=(1.0 if label else 0.0) if grade is None else grade,
            verdict=verdict,
            score=score,
            reason=reason,
        )

    @property
    def agrees(self) -> bool:
        return self.label is self.verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdAdvice:
    """The threshold that separates what people pass from what they fail."""

    threshold: float
    """Chosen on all rows; for an evaluator where lower is better, the score not to exceed."""
    balanced_accuracy: float
    """Mean of sensitivity and specificity on the rows that it was chosen on, so a little too good."""
    cross_validated: float
    """The same on rows that had no part in the choice: what to expect of new rows."""
    current: float
    """The same at the present threshold."""

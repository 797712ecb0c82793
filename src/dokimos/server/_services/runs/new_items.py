"""Items as clients send them, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class NewEvaluation(NamedTuple):
    """One score that a client sends. Texts that are JSON are JSON already.

    The fields are the columns of the table from `evaluator` on, in their order, so that one is most of a row.
    """

    evaluator: str
    score: float
    threshold: float | None
    success: bool
    reason: str | None = None
    label: str | None = None
    metadata: str | None = None
    error_detail: str | None = None


@dataclass(slots=True, kw_only=True)
class NewItem:
    """One item that a client sends. Texts that are JSON are JSON already."""

    ordinal: int | None = None
    repetition: int = 0
    input: str
    expected_output: str | None = None
    actual_output: str
    metadata: str | None = None
    error: str | None = None
    dataset_item_id: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    latency_ms: int | None = None
    evaluations: Sequence[NewEvaluation] = ()
    unjudged: Sequence[int] = ()
    """Positions of the scores without a verdict, whose `success` says nothing and is true."""

    judged: bool = field(init=False)
    """Whether any evaluator gave a verdict on it."""
    passed: bool = field(init=False)
    """Whether it was judged without an error, and every evaluator is content."""

    def __post_init__(self) -> None:
        self.judged = len(self.evaluations) > len(self.unjudged)
        self.passed = self.judged and self.error is None and all([each.success for each in self.evaluations])

    @property
    def is_informational(self) -> bool:
        """Whether it has scores, and none of them with a verdict."""
        return bool(self.unjudged) and not self.judged and self.error is None

"""Bodies and answers of human review."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from dokimos.server._api.answer_schemas import EvalResultAnswer, PageAnswer
from dokimos.server._api.datasets.dataset_schemas import AnnotateBody
from dokimos.server._api.http.json_body import StrictBody, WireModel
from dokimos.server._api.http.text_types import Name
from dokimos.server._api.runs.run_schemas import read_whole
from dokimos.server._db.ids import parse_id
from dokimos.server._services.reviews.label_schemas import LabelKind
from dokimos.server._services.reviews.reviews import Verdict

_MAX_ITEMS: Final = 1000
_MAX_SECONDS: Final = 86_400
_MAX_CHOICES: Final = 100
Order = Literal["createdAt", "informative"]
OutcomeFilter = Literal["failed", "errored"]
_Share = Annotated[float, Field(gt=0, le=1)]


def _check_id(text: str) -> str:
    identifier = parse_id(text)
    if identifier is None:
        raise ValueError("must be a UUID")
    return identifier


_Id = Annotated[str, AfterValidator(_check_id), Field(json_schema_extra={"format": "uuid"})]


class ReviewClaimAnswer(WireModel):
    """Who is at an item."""

    reviewer: str
    reviewer_name: str | None
    """The name of the key or person; null where it is gone, or the caller has no key."""
    expires_at: str | None
    assigned_by: str | None


class QueueRowAnswer(WireModel):
    """An item that waits for a verdict."""

    item_id: str
    run_id: str
    experiment_id: str
    experiment_name: str
    project_name: str
    ordinal: int
    repetition: int
    """With the ordinal, where it stands in the run."""
    input: dict[str, Any]
    expected_output: dict[str, Any] | None
    actual_output: dict[str, Any]
    eval_results: list[EvalResultAnswer]
    current_verdict: Verdict | None
    created_at: str
    error: str | None
    sampled: bool
    selection_probability: float | None
    claim: ReviewClaimAnswer | None


class QueuePage(PageAnswer):
    """A page of the review queue."""

    content: list[QueueRowAnswer]
    total_is_exact: bool


class ClaimBody(StrictBody):
    """Which items of the queue to claim."""

    count: Annotated[int, Field(ge=1, le=100), BeforeValidator(read_whole)] = 10
    seconds: Annotated[int, Field(ge=10, le=_MAX_SECONDS), BeforeValidator(read_whole)] = 900
    order: Order = "createdAt"
    project_name: str | None = None
    experiment_id: _Id | None = None
    run_id: _Id | None = None
    outcome: OutcomeFilter | None = None
    disagree: bool = False
    near: _Share | None = None
    sample: _Share | None = None
    assigned: Literal["me", "nobody"] | None = None


class ClaimedAnswer(WireModel):
    """What was claimed."""

    items: list[QueueRowAnswer]
    expires_at: str


class ClaimsBody(StrictBody):
    """Claims of the caller; all of them where none is named."""

    item_ids: Annotated[list[_Id], Field(max_length=_MAX_ITEMS)] | None = None
    seconds: Annotated[int, Field(ge=10, le=_MAX_SECONDS), BeforeValidator(read_whole)] = 900


class ReleaseBody(StrictBody):
    """Claims of the caller; all of them where none is named."""

    item_ids: Annotated[list[_Id], Field(max_length=_MAX_ITEMS)] | None = None


class HeldAnswer(WireModel):
    """The items that the caller is still at."""

    item_ids: list[str]
    expires_at: str


class ReleasedAnswer(WireModel):
    """How many claims were given back."""

    released: int


class AssignBody(StrictBody):
    """Items and who is to review them: the id of a key or a person, null for nobody."""

    item_ids: Annotated[list[_Id], Field(min_length=1, max_length=_MAX_ITEMS)]
    reviewer: Annotated[str, Field(min_length=1, max_length=255)] | None


class ReviewBody(AnnotateBody):
    """What a reviewer says about an item."""

    labels: dict[str, Any] | None = None


class ReviewAnswer(WireModel):
    """What a reviewer says about an item."""

    id: str
    item_id: str
    run_id: str
    reviewer: str
    reviewer_name: str | None
    verdict: Verdict
    overridden_expected_output: dict[str, Any] | None
    note: str | None
    labels: dict[str, Any]
    sampled: bool | None
    selection_probability: float | None
    created_at: str
    updated_at: str


class SaidAnswer(WireModel):
    """What a review said."""

    verdict: Verdict
    overridden_expected_output: dict[str, Any] | None
    note: str | None
    labels: dict[str, Any]


class ReviewChangeAnswer(WireModel):
    """A change of a review."""

    id: str
    kind: Literal["GIVEN", "WITHDRAWN", "UNDONE"]
    reviewer: str
    reviewer_name: str | None
    created_by: str
    created_at: str
    undone: bool
    before: SaidAnswer | None
    after: SaidAnswer | None


class UndoneAnswer(WireModel):
    """The caller's review as it is now, null where there is none."""

    review: ReviewAnswer | None


class LabelBody(StrictBody):
    """What a label can say."""

    kind: Annotated[LabelKind, Field(strict=False)]
    description: Annotated[str, Field(max_length=2000)] | None = None
    choices: Annotated[list[Name], Field(max_length=_MAX_CHOICES)] | None = None
    low: float | None = None
    high: float | None = None


class LabelAnswer(WireModel):
    """A label of a project in its latest version."""

    name: str
    version: int
    kind: LabelKind
    description: str | None
    choices: list[str]
    low: float | None
    high: float | None
    created_at: str


class ReviewerAnswer(WireModel):
    """What a person has done, and what it has taken on."""

    reviewer: str
    name: str | None
    reviewed: int
    """Items that it has reviewed in the time asked for."""
    last_at: str | None
    claimed: int
    assigned: int


class ReviewProgressAnswer(WireModel):
    """How far people are with a queue."""

    since: str
    left: int
    """Items that wait for a verdict."""
    reviewers: list[ReviewerAnswer]
    """Those who have reviewed most first, 200 at most."""

"""Bodies and answers about datasets, promotion and annotations."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, with_config
from pydantic import ConfigDict as Config
from typing_extensions import TypedDict

from dokimos.server._api.http.json_body import StrictBody, WireModel
from dokimos.server._api.http.text_types import Id, Name
from dokimos.server._services.reviews.reviews import Verdict


def _check_text(text: str) -> str:
    if "\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        raise ValueError("must not contain NUL or half a character")
    return text


def _check_note(text: str) -> str:
    if len(text) > _MAX_NOTE:
        raise ValueError(f"must be at most {_MAX_NOTE} characters")
    return text


_MAX_NOTE = 10_000
_MAX_PROMOTED = 10_000
# A length in the type would refuse half a character, which a note may hold: it is stored as JSON.
_Note = Annotated[str, AfterValidator(_check_note), Field(json_schema_extra={"maxLength": _MAX_NOTE})]
Description = Annotated[str, Field(max_length=10_000), AfterValidator(_check_text)]
ExternalId = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_check_text)]
_CONFIG = Config(strict=True, allow_inf_nan=False)
_STRICT = Config(strict=True, allow_inf_nan=False, extra="forbid")


class CreateDatasetBody(WireModel):
    """A dataset without versions."""

    name: Name
    description: Description | None = None


@with_config(_CONFIG)
class _Item(TypedDict):
    inputs: dict[str, Any]


@with_config(_CONFIG)
class DatasetItemBody(_Item, total=False):
    """An item of a version; `id` is what the client calls the case."""

    expectedOutputs: dict[str, Any] | None
    metadata: dict[str, Any] | None
    id: ExternalId | None


# Of a list, the first fault is what is answered: a million of them would take seconds and gigabytes.
_Items = Annotated[list[DatasetItemBody], Field(fail_fast=True)]


class CreateVersionBody(WireModel):
    """A whole version; `examples` is another name of `items`."""

    description: Description | None = None
    items: _Items | None = None
    examples: _Items | None = None


@with_config(_STRICT)
class _Change(TypedDict):
    op: Literal["set", "add", "remove"]


@with_config(_STRICT)
class ItemChangeBody(_Change, total=False):
    """A change: `set` and `remove` name an item by its id or lineage id; `add` has the `inputs` of one."""

    id: ExternalId | None
    inputs: dict[str, Any]
    expectedOutputs: dict[str, Any] | None
    metadata: dict[str, Any] | None


class EditVersionBody(StrictBody):
    """What a new version changes."""

    description: Description | None = None
    changes: Annotated[list[ItemChangeBody], Field(min_length=1, fail_fast=True)]
    expected_latest_version: Annotated[int, Field(ge=1, le=2**53)] | None = None


class PromotedItemBody(WireModel):
    """An item of a run that goes into a dataset."""

    item_result_id: Id
    overridden_expected_output: dict[str, Any] | None = None


class PromoteBody(WireModel):
    """Items of runs that go into a new version of a dataset."""

    dataset_name: Name
    description: Annotated[str, Field(max_length=2000), AfterValidator(_check_text)] | None = None
    items: Annotated[list[PromotedItemBody], Field(min_length=1, max_length=_MAX_PROMOTED, fail_fast=True)]
    mode: Literal["append", "replace"] | None = None
    use_corrections: bool | None = None
    only_reviewed: bool = False


class AnnotateBody(WireModel):
    """What a person says about an item."""

    texts_as_json: ClassVar = ("note",)
    verdict: Annotated[Verdict, Field(strict=False)]
    overridden_expected_output: dict[str, Any] | None = None
    note: _Note | None = None


class DatasetSummaryAnswer(WireModel):
    """A dataset in the list of datasets."""

    id: str
    name: str
    description: str | None
    latest_version: int | None
    latest_item_count: int
    created_at: str
    updated_at: str


class VersionAnswer(WireModel):
    """A version of a dataset."""

    id: str
    dataset_name: str
    version: int
    description: str | None
    item_count: int
    created_at: str
    created_by: str
    content_hash: str
    base_version: int | None


class DatasetAnswer(DatasetSummaryAnswer):
    """A dataset with all its versions."""

    versions: list[VersionAnswer]


class DatasetRunAnswer(WireModel):
    """A run that used a version of a dataset."""

    id: str
    name: str | None
    version: int
    experiment_id: str
    experiment_name: str
    project_name: str
    status: str
    started_at: str
    total_items: int
    errored_count: int
    passed_count: int
    judged_count: int
    pass_rate: float | None
    """The share of items that passed; null without items that have a verdict."""

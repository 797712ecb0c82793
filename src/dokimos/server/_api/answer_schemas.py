"""Answers that are assembled as text, for the description of the API: pages, items, runs, data sets."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from dokimos.server._api.http.json_body import WireModel
from dokimos.server._api.runs.run_schemas import EvaluatorBody, RunAnswer
from dokimos.server._services.datasets.dataset_diff import CaseStatus
from dokimos.server._services.reviews.reviews import Verdict


class SortAnswer(WireModel):
    """Whether a page is sorted as the request asked."""

    empty: bool
    sorted: bool
    unsorted: bool


class PageableAnswer(WireModel):
    """Which page was asked for."""

    offset: int
    sort: SortAnswer
    paged: bool
    page_number: int
    page_size: int
    unpaged: bool


class PageAnswer(WireModel):
    """The documented envelope of a page, without its content."""

    number: int
    size: int
    total_elements: int
    total_pages: int
    first: bool
    last: bool
    number_of_elements: int
    empty: bool
    sort: SortAnswer
    pageable: PageableAnswer


class AnnotationAnswer(WireModel):
    """What a person says about an item."""

    id: str
    verdict: Verdict
    overridden_expected_output: dict[str, Any] | None
    note: str | None
    created_by: str
    created_at: str
    updated_at: str


class EvalResultAnswer(WireModel):
    """One score of an item."""

    id: str
    evaluator_name: str
    score: float
    threshold: float | None
    success: bool | None
    reason: str | None
    label: str | None
    metadata: dict[str, Any] | None
    error_detail: dict[str, Any] | None


class JudgeErrorAnswer(WireModel):
    """Why a judge job could not score an item."""

    job_id: str
    evaluator_name: str
    kind: str
    message: str
    created_at: str


class ItemAnswer(WireModel):
    """One item of a run."""

    id: str
    input: dict[str, Any]
    expected_output: dict[str, Any] | None
    actual_output: dict[str, Any]
    metadata: dict[str, Any] | None
    eval_results: list[EvalResultAnswer]
    created_at: str
    dataset_item_id: str | None
    annotation: AnnotationAnswer | None
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    latency_ms: int | None
    ordinal: int
    repetition: int
    error: str | None
    judge_errors: list[JudgeErrorAnswer]


class ItemPage(PageAnswer):
    """A page of the items of a run."""

    content: list[ItemAnswer]


class ScoreColumnAnswer(WireModel):
    """What one evaluator said of the items of a run."""

    evaluator_name: str
    scores: list[float | None]
    outcomes: str = Field(
        description="A letter for each item: `p` passed, `f` failed, `i` no verdict, `-` not scored."
    )


class OutlineAnswer(WireModel):
    """The outcome and the scores of every item of a run, as columns of one entry for each item."""

    ordinals: list[int]
    repetitions: list[int]
    outcomes: str = Field(
        description="A letter for each item: `p` passed, `f` failed, `e` errored, `u` not judged."
    )
    latencies_ms: list[int | None]
    evaluators: list[ScoreColumnAnswer]
    excluded_evaluators: list[str] = Field(
        description="Evaluators without a column, since the answer would have more than two million scores."
    )


class MetadataColumnAnswer(WireModel):
    """The values of one key of the items' metadata."""

    name: str
    values: list[str | int | float | bool] = Field(description="Each value once.")
    codes: list[int] = Field(description="For each item the position of its value, -1 where it has none.")


class ItemAttributesAnswer(WireModel):
    """What the items of a run are told apart by, as columns of one entry for each item."""

    ordinals: list[int]
    repetitions: list[int]
    dataset_item_ids: list[str | None]
    lineage_ids: list[str | None] = Field(
        description="The case of the dataset: the same in all versions that have it."
    )
    example_ids: list[str | None] = Field(
        description="The id of the example in the client's data set, of at most 200 characters."
    )
    metadata: list[MetadataColumnAnswer] = Field(
        description="The keys with at most 40 values that are numbers, words or booleans; at most 30 keys."
    )


class EvaluatorAnswer(EvaluatorBody):
    """An evaluator of a run, with what its scores come to."""

    score_count: int
    mean_score: float | None
    success_count: int


class RunDetails(RunAnswer):
    """A run with a page of its items."""

    experiment_id: str
    experiment_name: str
    project_name: str
    total_items: int
    passed_items: int
    priced_item_count: int
    tokenized_item_count: int
    provenance: dict[str, Any] | None
    evaluators: list[EvaluatorAnswer]
    items: ItemPage


class ItemSource(WireModel):
    """The item of a run that was promoted."""

    item_result_id: str
    run_id: str | None


class DatasetItemAnswer(WireModel):
    """An item of a version; the lineage is the case, which is the same one in all versions."""

    id: str
    ordinal: int
    inputs: dict[str, Any]
    expected_outputs: dict[str, Any] | None
    metadata: dict[str, Any] | None
    lineage_id: str
    external_id: str | None
    content_hash: str
    source: ItemSource | None


class DatasetItemPage(PageAnswer):
    """A page of the items of a version."""

    content: list[DatasetItemAnswer]


class DatasetDiffSummary(WireModel):
    """How much two versions differ."""

    dataset_name: str
    before: int = Field(alias="from")
    after: int = Field(alias="to")
    added: int
    removed: int
    changed: int
    unchanged: int
    is_equal: bool


class DatasetCase(WireModel):
    """A case that differs in two versions."""

    status: CaseStatus
    lineage_id: str
    changed_fields: list[Literal["inputs", "expectedOutputs", "metadata"]]
    before: DatasetItemAnswer | None = Field(alias="from")
    after: DatasetItemAnswer | None = Field(alias="to")


class DatasetCasePage(PageAnswer):
    """A page of cases that differ."""

    content: list[DatasetCase]


class DatasetDiffAnswer(WireModel):
    """What changed between two versions of a dataset."""

    summary: DatasetDiffSummary
    cases: DatasetCasePage

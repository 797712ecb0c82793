"""Bodies and answers about projects, experiments and runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dokimos.server._api.http.json_body import StrictBody, WireModel
from dokimos.server._api.http.text_types import Id, Moment, Name
from dokimos.server._services.runs.runs import RunStatus


def read_whole(value: object) -> object:
    """Read `12.0` as the whole number that it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


ShortText = Annotated[str, Field(max_length=255)]
MAX_WHOLE = 2**63 - 1


class EvaluatorBody(WireModel):
    """What a client says about an evaluator of a run."""

    name: ShortText
    range_low: float | None = None
    range_high: float | None = None
    direction: Literal["HIGHER_IS_BETTER", "LOWER_IS_BETTER"] | None = None
    threshold: float | None = None
    fingerprint: ShortText | None = None
    deterministic: bool | None = None


class CreateRunBody(WireModel):
    """A run that starts."""

    experiment_name: Name
    metadata: dict[str, Any] | None = None
    name: ShortText | None = None
    git_sha: ShortText | None = None
    git_branch: ShortText | None = None
    triggered_by: ShortText | None = None
    pull_request: ShortText | None = None
    provenance: dict[str, Any] | None = None
    notes: Annotated[str, Field(max_length=10_000)] | None = None
    tags: Annotated[list[ShortText], Field(max_length=50)] | None = None
    dataset_name: Name | None = None
    dataset_version: Annotated[int, Field(ge=1, le=MAX_WHOLE), BeforeValidator(read_whole)] | None = None
    planned_items: Annotated[int, Field(ge=0, le=MAX_WHOLE)] | None = None
    evaluators: Annotated[list[EvaluatorBody], Field(max_length=1000)] | None = None
    started_at: Moment | None = None
    """When the run began, if that was not now; a time in the future counts as now."""
    client_run_id: ShortText | None = None
    """What the client calls the run. With it, an `Idempotency-Key` stands for this run of this experiment,
    whatever else the body says: what is sent live, replayed and pushed differs in its details."""


class ChangeStatusBody(WireModel):
    """The status that a run gets, and its evaluators where they were not known when it started."""

    status: Annotated[RunStatus, Field(strict=False)]
    evaluators: Annotated[list[EvaluatorBody], Field(max_length=1000)] | None = None
    completed_at: Moment | None = None
    """When the run ended, if that was not now; a time in the future counts as now."""


class DescribeRunBody(StrictBody):
    """What a person changes in the description of a run; what is missing or null stays."""

    name: ShortText | None = None
    notes: Annotated[str, Field(max_length=10_000)] | None = None
    tags: Annotated[list[ShortText], Field(max_length=50)] | None = None


class PinBaselineBody(StrictBody):
    """The run that becomes the baseline; null removes the pin."""

    run_id: Id | None = None


class CommentBody(StrictBody):
    """A comment on a run, or on one of its items."""

    body: Annotated[str, Field(min_length=1, max_length=10_000)]
    item_id: Id | None = None


class EditCommentBody(StrictBody):
    """The new text of a comment."""

    body: Annotated[str, Field(min_length=1, max_length=10_000)]


class CreatedRun(WireModel):
    """The id of a new run."""

    run_id: str


class StatusAnswer(WireModel):
    """That something was done."""

    status: str


class ExperimentVerdict(WireModel):
    """The last verdict of the gate on an experiment."""

    experiment_id: str
    experiment_name: str
    run_id: str
    status: Literal["PASS", "FAIL", "NO_BASELINE"]
    started_at: str


class RunCounts(WireModel):
    """How many items of a run passed, and of how many: `judgedCount` is 0 where nobody has judged any."""

    item_count: int
    passed_count: int
    judged_count: int
    errored_count: int


class ExperimentRun(RunCounts):
    """The latest run of an experiment, in the list of projects."""

    experiment_id: str
    experiment_name: str
    run_id: str
    status: str
    started_at: str


class ProjectAnswer(WireModel):
    """A project in the list of projects."""

    id: str
    name: str
    experiment_count: int
    created_at: str
    run_count: int
    last_activity_at: str
    verdicts: list[ExperimentVerdict]
    latest_runs: list[ExperimentRun]
    """The latest run of each experiment that has one, the newest first."""


class LatestRun(RunCounts):
    """The latest run of an experiment."""

    run_id: str
    status: str
    pass_rate: float | None
    started_at: str


class ExperimentAnswer(WireModel):
    """An experiment in the list of a project."""

    id: str
    name: str
    created_at: str
    latest_run: LatestRun | None
    run_count: int
    baseline_run_id: str | None


class RunAnswer(WireModel):
    """What all answers about a run have."""

    id: str
    status: str
    config: dict[str, Any] | None
    pass_rate: float | None
    started_at: str
    completed_at: str | None
    dataset_version_id: str | None
    dataset_version: int | None
    total_tokens_in: int | None
    total_tokens_out: int | None
    total_cost_usd: float | None
    avg_latency_ms: float | None
    status_reason: str | None
    judged_count: int
    informational_count: int
    errored_count: int
    planned_items: int | None
    name: str | None
    notes: str | None
    tags: list[str]
    git_sha: str | None
    git_branch: str | None
    triggered_by: str | None
    pull_request: str | None
    dataset_name: str | None
    is_baseline: bool


class RunSummary(RunAnswer):
    """A run in the list of an experiment."""

    item_count: int
    passed_count: int


class TrendPoint(WireModel):
    """A run as a point of a trend."""

    run_id: str
    started_at: str
    pass_rate: float
    total_items: int
    passed_items: int
    judged_count: int
    changed_evaluators: list[str]
    """Evaluators that are not as in the run before: new, gone, or with another fingerprint."""


class EvaluatorTrendPoint(WireModel):
    """What an evaluator said of the items of a run."""

    run_id: str
    mean_score: float | None
    score_count: int
    threshold: float | None
    fingerprint: str | None


class EvaluatorTrend(WireModel):
    """The scores of an evaluator over the runs that it has scored, oldest first."""

    evaluator_name: str
    range_low: float | None
    range_high: float | None
    direction: str | None
    points: list[EvaluatorTrendPoint]


class EvaluatorTrendsAnswer(WireModel):
    """The evaluators of an experiment over its latest runs, in the order of the latest one."""

    evaluators: list[EvaluatorTrend]


class TrendsAnswer(WireModel):
    """The pass rate of an experiment over its latest runs, oldest first."""

    experiment_name: str
    project_name: str
    runs: list[TrendPoint]

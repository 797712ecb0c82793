"""Bodies and answers about comparisons and the gate."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from dokimos.server._api.answer_schemas import PageAnswer
from dokimos.server._api.http.json_body import StrictBody, WireModel
from dokimos.server._api.http.text_types import Id
from dokimos.server._services.comparisons.gate_options import DEFAULT_POWER, GateOptions

Share = Annotated[float, Field(gt=0, lt=1)]
Iterations = Annotated[int, Field(ge=1, le=100_000)]


class GateBody(StrictBody):
    """The run to check, and how. Only `candidateRunId` is required."""

    candidate_run_id: Id
    baseline_run_id: str | None = None
    baseline_branch: str | None = None
    alpha: Share | None = None
    correction: Literal["westfall-young", "holm", "bh", "none"] | None = None
    pairing: Literal["auto", "positional", "dataset_item_id"] | None = None
    seed: Annotated[int, Field(ge=-(2**53), le=2**53)] | None = None
    permutation_iterations: Iterations | None = None
    bootstrap_iterations: Iterations | None = None
    severity: Literal["auto", "any", "confirmed", "calibrated", "off"] | None = None
    severity_margin: Annotated[float, Field(ge=0, le=1)] | None = None
    fail_on_regression: bool | None = None
    fail_on_removed_items: bool | None = None
    on_removed_evaluator: Literal["fail", "warn"] | None = None
    fail_on_errors: bool | None = None
    require_power: bool | Share | None = None
    detect_drop: Share | None = None
    on_no_baseline: Literal["pass", "fail"] = "pass"
    skip_failed_baselines: bool = False
    refuse_changed_evaluators: bool = False

    @property
    def options(self) -> GateOptions:
        """The options that are not about which runs are compared; what is missing or null is the default."""
        chosen: dict[str, Any] = {
            name: value
            for name in GateOptions.__dataclass_fields__
            if (value := getattr(self, name)) is not None
        }
        power = chosen.pop("require_power", None)
        if power is not None and power is not False:
            chosen["require_power"] = DEFAULT_POWER if power is True else power
        return GateOptions(**chosen)


class EvaluatorDrop(WireModel):
    """How one evaluator's score of an item fell."""

    evaluator: str
    baseline_mean: float | None
    candidate_mean: float | None
    delta: float


class GateCase(WireModel):
    """An item that got worse."""

    dataset_item_id: str | None
    index: str
    evaluator_drops: list[EvaluatorDrop]
    candidate_item_id: str | None
    input: str | None


class RegressedEvaluator(WireModel):
    """An evaluator that got significantly worse; `pValue` is adjusted for all tests of the comparison."""

    evaluator: str
    baseline_mean: float | None
    candidate_mean: float | None
    delta: float | None
    p_value: float
    raw_p_value: float = Field(alias="rawPValue")
    interval: list[float] | None
    item_count: int


class EvaluatorChange(WireModel):
    """An evaluator that is configured differently than in the baseline."""

    evaluator: str
    baseline_fingerprint: str
    candidate_fingerprint: str


class GuardAnswer(WireModel):
    """A guard that fired, and whether it fails the gate."""

    guard: str
    reason: str
    fails: bool
    inconclusive: bool


class ComparisonSummary(WireModel):
    """How the whole run moved."""

    pairing: str
    baseline_run_id: str | None
    candidate_run_id: str
    baseline_pass_rate: float | None
    candidate_pass_rate: float
    pass_rate_delta: float | None
    significant: bool
    improved_count: int
    regressed_count: int
    unchanged_count: int
    added_count: int
    removed_count: int
    paired_by: str | None
    paired_count: int
    not_judged_count: int
    paired_baseline_pass_rate: float | None
    paired_candidate_pass_rate: float | None
    paired_delta: float | None
    paired_delta_interval: list[float] | None
    p_value: float | None
    raw_p_value: float | None = Field(alias="rawPValue")
    method: str | None
    powered: bool
    minimum_detectable_drop: float | None
    metrics: list[dict[str, Any]]
    added_evaluators: list[str]
    removed_evaluators: list[str]
    evaluator_changes: list[EvaluatorChange]
    warnings: list[str]
    alpha: float
    correction: str


class GateAnswer(ComparisonSummary):
    """The verdict of the gate; a build branches on `passed`."""

    status: Literal["PASS", "FAIL", "NO_BASELINE"]
    passed: bool
    regressed_evaluators: list[RegressedEvaluator]
    cases: list[GateCase]
    cases_truncated: bool
    inconclusive: bool
    reasons: list[str]
    guards: list[GuardAnswer]
    evidence: str | None
    item_guards_in_words: list[str]
    baseline_source: str
    baseline_reason: str
    baseline_warnings: list[str]


class EvaluatorScore(WireModel):
    """How one evaluator's score of an item changed."""

    name: str
    baseline_mean: float | None
    candidate_mean: float | None
    delta: float
    status: str
    significant: bool


class DiffCase(WireModel):
    """How one item changed."""

    dataset_item_id: str | None
    index: str
    status: str
    pass_flip: bool
    input: str | None
    evaluators: list[EvaluatorScore]
    baseline_item_id: str | None
    candidate_item_id: str | None
    baseline_pass: float | None
    candidate_pass: float | None


class DiffCases(PageAnswer):
    """A page of cases."""

    content: list[DiffCase]


class DiffAnswer(WireModel):
    """What changed between two runs."""

    summary: ComparisonSummary
    cases: DiffCases


class BaselineAnswer(WireModel):
    """The run that the gate would compare a candidate with, and why."""

    candidate_run_id: str
    baseline_run_id: str | None
    source: Literal["PINNED", "AUTOMATIC", "NONE"]
    reason: str

"""Routes that compare runs: the gate, the difference of two runs, and which run is the baseline."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import Response
from pydantic.config import JsonDict
from sqlalchemy import Connection

from dokimos._core.text import shorten
from dokimos.server._api.comparisons.gate_schemas import (
    BaselineAnswer,
    ComparisonSummary,
    DiffAnswer,
    GateAnswer,
    GateBody,
    GuardAnswer,
)
from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import describe_body, json_body
from dokimos.server._api.http.json_text import encode_json
from dokimos.server._api.http.paging import PageRequest, page_of, page_request
from dokimos.server._api.http.parameters import Engine, ExperimentId, Store
from dokimos.server._api.http.spliced_json import json_response
from dokimos.server._api.runs.run_answers import pass_rate
from dokimos.server._db.ids import parse_id
from dokimos.server._services.accounts.principal import Role
from dokimos.server._services.comparisons.baselines import find_baseline, find_candidate, warn_of_verdict
from dokimos.server._services.comparisons.comparison_turns import Lane
from dokimos.server._services.comparisons.comparisons import ComparedRuns, ComparisonRequest
from dokimos.server._services.comparisons.gate_options import GateOptions
from dokimos.server._services.comparisons.stored_comparisons import (
    ComparisonGone,
    StoredComparison,
    read_cases,
    read_inputs,
)
from dokimos.server._services.errors import InvalidRequestError, UnavailableError
from dokimos.server._services.runs.runs import RunStatus, describe_failure

ROUTER = APIRouter(prefix="/api/v1/experiments/{experimentId}", tags=["Comparisons"])
_MAX_READS: Final = 5
"""How often a comparison is looked for that is removed before its cases are read."""
_DIFF_PAGE = page_request(20)
_STATUSES: Final = ("ALL", "REGRESSED", "IMPROVED", "CHANGED")
_STATUS_SCHEMA: Final[JsonDict] = {"enum": list(_STATUSES)}
_MAX_INPUT_CHARACTERS: Final = 200
_SUMMARY_KEYS: Final = {field.alias for field in ComparisonSummary.model_fields.values()}
"""What of the gate's answer, as it is stored, the difference of two runs shows."""


async def _read_candidate(candidate: Annotated[UUID, Path(alias="candidateRunId")]) -> str:
    return str(candidate)


CandidateId = Annotated[str, Depends(_read_candidate)]


@ROUTER.post("/gate", response_model=GateAnswer, openapi_extra=describe_body(GateBody))
@access(Access.PROJECT_WRITE)
async def check_run(
    caller: Caller,
    store: Store,
    engine: Engine,
    experiment_id: ExperimentId,
    body: Annotated[GateBody, Depends(json_body(GateBody))],
) -> Response:
    """Say whether a run is worse than its baseline."""
    request = ComparisonRequest(
        experiment_id=experiment_id,
        candidate_id=_run_id(body.candidate_run_id, "candidateRunId"),
        baseline_id=_run_id(body.baseline_run_id, "baselineRunId") if body.baseline_run_id else None,
        branch=body.baseline_branch or None,
        options=body.options,
        skip_failed_baselines=body.skip_failed_baselines,
        refuse_changed_evaluators=body.refuse_changed_evaluators,
        refuse_parts=True,
        needed_role=Role.EDITOR,
    )
    compared = await engine.compare(caller, request)
    if request.is_automatic and compared.candidate.verdict is None:
        engine.judge_soon(compared.candidate.id)
    if compared.comparison is None:
        answer = _answer_without_baseline(compared, request.options, body.on_no_baseline == "fail")
        return json_response(answer.model_dump_json(by_alias=True))
    summary = json.loads(compared.comparison.summary)
    await _add_inputs(store, summary["cases"])
    baseline = compared.baseline
    # Not stored with the comparison: the baseline may get its verdict later.
    of_verdict = warn_of_verdict(baseline)
    for key in ("warnings", "baselineWarnings"):
        summary[key] = [*of_verdict, *summary[key]]
    return json_response(
        encode_json({**summary, "baselineSource": baseline.source, "baselineReason": baseline.reason})
    )


async def _add_inputs(store: Store, cases: list[dict[str, Any]]) -> None:
    """Add the text of each case's input, by which people know an item."""
    ids = [case["candidateItemId"] for case in cases if case["candidateItemId"] is not None]
    inputs = await store.read(lambda connection: read_inputs(connection, ids)) if ids else {}
    for case in cases:
        text = inputs.get(case["candidateItemId"])
        case["input"] = text and shorten(text, _MAX_INPUT_CHARACTERS)


@ROUTER.get("/runs/{candidateRunId}/diff", response_model=DiffAnswer)
@access(Access.READ)
async def get_diff(
    caller: Caller,
    store: Store,
    engine: Engine,
    experiment_id: ExperimentId,
    candidate_id: CandidateId,
    baseline_id: Annotated[UUID, Query(alias="baselineRunId")],
    page: _DIFF_PAGE,  # type: ignore[valid-type] # made by a function, for its default size
    status: Annotated[str, Query(description="In any case.", json_schema_extra=_STATUS_SCHEMA)] = "ALL",
) -> Response:
    """Compare two runs item by item: the movement of the whole, and a page of cases, the worst first."""
    chosen = status.strip().upper()
    if chosen not in _STATUSES:
        raise InvalidRequestError(f"must be {', '.join(_STATUSES[:-1])} or {_STATUSES[-1]}", field="status")
    request = ComparisonRequest(
        experiment_id=experiment_id, candidate_id=candidate_id, baseline_id=str(baseline_id)
    )
    for _ in range(_MAX_READS):
        comparison = (await engine.compare(caller, request, Lane.DIFF)).comparison
        assert comparison is not None, "a baseline was asked for"
        with suppress(ComparisonGone):  # replaced or discarded between the two reads: then it is found anew
            return await _diff_page(store, comparison, chosen, page)
    raise UnavailableError("The comparison was removed each time that it was read; try again.")


@ROUTER.get("/runs/{candidateRunId}/baseline", response_model=BaselineAnswer)
@access(Access.READ)
async def get_baseline(
    caller: Caller,
    store: Store,
    experiment_id: ExperimentId,
    candidate_id: CandidateId,
    branch: Annotated[str | None, Query(alias="baselineBranch")] = None,
    skip_failed_baselines: Annotated[bool, Query(alias="skipFailedBaselines")] = False,
) -> dict[str, Any]:
    """Say which run the gate would compare this one with, and why."""

    def read(connection: Connection) -> dict[str, Any]:
        experiment, candidate = find_candidate(
            connection, caller, experiment_id, candidate_id, must_have_ended=False
        )
        baseline = find_baseline(
            connection,
            caller,
            experiment,
            candidate,
            branch=branch or None,
            skips_failed=skip_failed_baselines,
        )
        return {
            "candidateRunId": candidate_id,
            "baselineRunId": None if baseline.run is None else baseline.run.id,
            "source": baseline.source,
            "reason": baseline.reason,
        }

    return await store.read(read)


def _run_id(text: str, field: str) -> str:
    run_id = parse_id(text)
    if run_id is None:
        raise InvalidRequestError("must be a UUID", field=field)
    return run_id


def _range_of(status: str, summary: dict[str, Any], count: int) -> tuple[int, int]:
    """Where the cases of a status begin and end: they stand in the order of `Change`, the worst first."""
    regressed, improved = summary["regressedCount"], summary["improvedCount"]
    return {
        "ALL": (0, count),
        "REGRESSED": (0, regressed),
        "IMPROVED": (regressed, regressed + improved),
        "CHANGED": (0, regressed + improved),
    }[status]


async def _diff_page(store: Store, comparison: StoredComparison, status: str, page: PageRequest) -> Response:
    summary = json.loads(comparison.summary)
    start, end = _range_of(status, summary, comparison.case_count)
    first = min(start + page.offset, end)
    last = min(first + page.size, end)
    content = await store.read(lambda connection: read_cases(connection, comparison.id, first, last))
    public = {key: value for key, value in summary.items() if key in _SUMMARY_KEYS}
    return json_response(encode_json({"summary": public, "cases": page_of(content, end - start, page)}))


def _answer_without_baseline(compared: ComparedRuns, options: GateOptions, is_failing: bool) -> GateAnswer:
    """The answer where there is nothing to compare with: a first run cannot regress."""
    run = compared.candidate
    guards = _find_guards(compared, is_failing)
    reasons = [guard.reason for guard in guards if guard.fails]
    return GateAnswer(
        status="FAIL" if reasons else "NO_BASELINE",
        passed=not reasons,
        inconclusive=False,
        reasons=reasons,
        warnings=[guard.reason for guard in guards if not guard.fails],
        baseline_warnings=[],
        guards=guards,
        evidence=None,
        item_guards_in_words=[],
        baseline_source=compared.baseline.source,
        baseline_reason=compared.baseline.reason,
        candidate_run_id=run.id,
        baseline_run_id=None,
        pairing="none",
        candidate_pass_rate=pass_rate(run) or 0.0,
        baseline_pass_rate=None,
        pass_rate_delta=None,
        significant=False,
        improved_count=0,
        regressed_count=0,
        unchanged_count=0,
        added_count=0,
        removed_count=0,
        paired_count=0,
        not_judged_count=0,
        paired_by=None,
        paired_baseline_pass_rate=None,
        paired_candidate_pass_rate=None,
        paired_delta=None,
        paired_delta_interval=None,
        p_value=None,
        rawPValue=None,
        method=None,
        powered=False,
        minimum_detectable_drop=None,
        metrics=[],
        regressed_evaluators=[],
        added_evaluators=[],
        removed_evaluators=[],
        evaluator_changes=[],
        cases=[],
        cases_truncated=False,
        alpha=options.alpha,
        correction=options.correction,
    )


def _find_guards(compared: ComparedRuns, is_failing: bool) -> list[GuardAnswer]:
    reason = compared.baseline.reason
    guards = [GuardAnswer(guard="no_baseline", reason=reason, fails=is_failing, inconclusive=False)]
    if compared.candidate.status == RunStatus.FAILED:
        failed = describe_failure(compared.candidate)
        guards.append(GuardAnswer(guard="incomplete", reason=failed, fails=True, inconclusive=False))
    return guards

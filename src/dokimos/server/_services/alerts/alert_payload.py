"""What an alert says: the documented facts, and the bodies that are made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Literal

from sqlalchemy import Row

from dokimos._core.number_format import round_half_up
from dokimos._core.text import shorten
from dokimos.comparison._config import ComparisonConfig
from dokimos.server._services.projects.project_settings import AlertOn
from dokimos.server._services.runs.runs import describe_failure

Facts = Mapping[str, Any]
_MAX_REASON: Final = 1500
_MAX_HEADER: Final = 150
"""What Slack takes as a header."""
_MAX_FIELD: Final = 200
_NOBODY: Final = "00000000-0000-0000-0000-000000000000"
_EVALUATOR_FIELDS: Final = ("evaluator", "baselineMean", "candidateMean", "delta", "pValue")


class AlertFormat(StrEnum):
    """What the body of an alert looks like."""

    DOKIMOS = "dokimos"
    """The documented JSON."""
    SLACK = "slack"
    """A message of Slack, in blocks."""
    GENERIC = "generic"
    """Chosen facts under names of one's own."""


Fact = Literal[
    "projectName",
    "experimentId",
    "experimentName",
    "runId",
    "baselineRunId",
    "baselinePassRate",
    "candidatePassRate",
    "passRateDelta",
    "regressedCaseCount",
    "reason",
    "regressedEvaluators",
    "link",
    "message",
    "type",
    "alertId",
    "alertName",
    "metric",
    "firedAt",
    "since",
]
"""What a field of the generic form can hold; `message` is one sentence that says it all.

An alert on a run has no value for some of them, and one on traces for others: these are null.
"""
TRACE_ALERT: Final = "traceAlert"
"""The `type` of an alert on traces; one on a run has none."""


def is_alarming(rule: AlertOn, verdict: str, summary: Mapping[str, Any] | None) -> bool:
    """Say whether a verdict is worth an alert.

    Args:
        rule: That of the project.
        verdict: `PASS`, `FAIL` or `NO_BASELINE`.
        summary: The answer of the gate, None where there was nothing to compare with.
    """
    if verdict != "FAIL" or rule is AlertOn.GATE:
        return verdict == "FAIL"
    delta = None if summary is None else summary["pairedDelta"]
    return (
        summary is not None and bool(summary["significant"]) and (delta or 0.0) < -ComparisonConfig().epsilon
    )


def describe_alert(run: Row[Any], summary: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the facts of an alert, except for the link.

    Args:
        run: The run that failed, with the names of its project and its experiment.
        summary: The answer of the gate, None where there was nothing to compare with.
    """
    judged = run.item_count - run.informational_count
    rate = run.passed_count / judged if judged else 0.0
    compared = summary or {
        "baselineRunId": None,
        "baselinePassRate": None,
        "candidatePassRate": round_half_up(rate),
        "passRateDelta": None,
        "regressedCount": 0,
        "reasons": [describe_failure(run)],
        "regressedEvaluators": [],
    }
    return {
        "projectName": run.project_name,
        "experimentId": run.experiment_id,
        "experimentName": run.experiment_name,
        "runId": run.id,
        "baselineRunId": compared["baselineRunId"],
        "baselinePassRate": compared["baselinePassRate"],
        "candidatePassRate": compared["candidatePassRate"],
        "passRateDelta": compared["passRateDelta"],
        "regressedCaseCount": compared["regressedCount"],
        "judgedCount": run.judged_count,
        "reason": shorten(" ".join(compared["reasons"]), _MAX_REASON),
        "regressedEvaluators": [
            {name: each[name] for name in _EVALUATOR_FIELDS} for each in compared["regressedEvaluators"]
        ],
    }


def describe_test(project_name: str) -> dict[str, Any]:
    """Return the facts of a test call, which `test` tells from an alert."""
    return {
        "projectName": project_name,
        "experimentId": _NOBODY,
        "experimentName": "test",
        "runId": _NOBODY,
        "baselineRunId": _NOBODY,
        "baselinePassRate": 0.92,
        "candidatePassRate": 0.78,
        "passRateDelta": -0.14,
        "regressedCaseCount": 7,
        "judgedCount": 50,
        "reason": "This is a test call: no run has failed.",
        "regressedEvaluators": [],
        "test": True,
    }


def link_to(facts: Facts, public_url: str | None) -> str | None:
    """Return the address of the comparison, or of the run; None where the server's address is not known."""
    if public_url is None or facts.get("test"):
        return public_url
    api = f"{public_url.rstrip('/')}/api/v1"
    if facts.get("type") == TRACE_ALERT:
        return f"{api}/projects/{facts['projectId']}/trace-alerts/{facts['alertId']}"
    if facts["baselineRunId"] is None:
        return f"{api}/runs/{facts['runId']}"
    pair = f"{facts['runId']}/diff?baselineRunId={facts['baselineRunId']}"
    return f"{api}/experiments/{facts['experimentId']}/runs/{pair}&status=REGRESSED"


def render_body(facts: Facts, form: AlertFormat, fields: Mapping[str, str] | None) -> bytes:
    """Return the body of a request: the same bytes for the same arguments.

    Args:
        facts: What is told, with the link.
        form: What the body looks like.
        fields: For the generic form, the name of a fact by each key of the body.
    """
    match form:
        case AlertFormat.DOKIMOS:
            body = dict(facts)
        case AlertFormat.SLACK:
            body = _render_slack(facts)
        case AlertFormat.GENERIC:
            known = {**facts, "message": _say(facts)}
            body = {key: known.get(name) for key, name in (fields or {}).items()}
    return json.dumps(body, separators=(",", ":")).encode()


def _say(facts: Facts) -> str:
    link = f" {facts['link']}" if facts["link"] else ""
    if facts.get("type") == TRACE_ALERT:
        return f"{facts['alertName']} ({facts['projectName']}) fires: {facts['reason']}{link}"
    return f"{facts['experimentName']} ({facts['projectName']}) failed the gate: {facts['reason']}{link}"


def _render_slack(facts: Facts) -> dict[str, Any]:
    """A message in blocks. Names come from users: they are plain text, which Slack does not interpret."""
    title, values = _summarize(facts)
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _plain(shorten(title, _MAX_HEADER - 30))},
        {"type": "section", "text": _plain(facts["reason"] or title)},
        {
            "type": "section",
            "fields": [
                _plain(f"{name}\n{shorten(value, _MAX_FIELD)}") for name, value in values.items() if value
            ],
        },
    ]
    if facts["link"]:
        link = f"<{_escape(facts['link'])}|Open>"
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": link}})
    # Notifications show this, and screen readers read it; here Slack does look for markup.
    return {"text": _escape(shorten(_say(facts), _MAX_REASON)), "blocks": blocks}


def _summarize(facts: Facts) -> tuple[str, dict[str, str]]:
    """Return the title of a message, and what stands below its reason."""
    if facts.get("type") == TRACE_ALERT:
        return f"{facts['alertName']} fires", {
            "Project": facts["projectName"],
            "Metric": facts["metric"],
            "Fired at": facts["firedAt"],
            "Since about": facts["since"] or "",
        }
    return f"{facts['experimentName']} failed the gate", {
        "Project": facts["projectName"],
        "Pass rate": _describe_rates(facts),
        "Regressed items": str(facts["regressedCaseCount"]),
        "Regressed evaluators": ", ".join(each["evaluator"] for each in facts["regressedEvaluators"]),
    }


def _describe_rates(facts: Facts) -> str:
    before, after = facts["baselinePassRate"], facts["candidatePassRate"]
    if facts.get("judgedCount") == 0:  # missing in payloads that an older server has stored
        return "nothing judged" if before is None else f"{before:.1%} → nothing judged"
    if before is None:
        return f"{after:.1%}, without a baseline"
    return f"{before:.1%} → {after:.1%} ({100 * facts['passRateDelta']:+.1f} points)"


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

"""Traces for alerts, written into their table: thousands in a moment, at the times that a test says."""

from dokimos.server._db.clock import DAY, HOUR, now
from dokimos.server._db.ids import first_id
from dokimos.server._db.trace_tables import TRACE_EVAL_JOBS, TRACES

ALERTS = "/api/v1/projects/{}/trace-alerts"


def trace_rows(project, times, tenant=None, **columns):
    """Rows of traces that the server heard of at some times; each column is a list, or the same for all."""
    rows = []
    for place, at in enumerate(times):
        identifier = f"{first_id(at)[:-12]}{place:012x}"
        row = {
            "id": identifier,
            "tenant_key": tenant or "",
            "tenant_id": tenant,
            "trace_id": identifier.replace("-", ""),
            "project_id": project,
            "day": at // DAY,
            "created_at": at,
            "updated_at": at,
            "span_count": 1,
            "error_count": 0,
            "byte_count": 1,
            "summary": "{}",
        }
        rows.append(
            row
            | {name: value[place] if isinstance(value, list) else value for name, value in columns.items()}
        )
    return rows


def job_rows(rule, traces, scores, probability=1.0, status="SUCCEEDED"):
    """Jobs of a rule, one of each trace."""
    return [
        {
            "id": trace["id"],
            "rule_id": rule,
            "target": trace["id"],
            "trace": trace["id"],
            "span_id": "01",
            "tenant_id": trace["tenant_id"],
            "project_id": trace["project_id"],
            "evaluator_name": "tone",
            "config": 1,
            "probability": probability,
            "status": status,
            "score": score,
            "success": score >= 0.5,
            "attempt_count": 1,
            "observed_at": trace["created_at"],
            "created_at": trace["created_at"],
        }
        for trace, score in zip(traces, scores, strict=True)
    ]


def insert(traces, jobs=()):
    """A change that stores traces and jobs."""

    def change(connection):
        connection.execute(TRACES.insert(), traces)
        if jobs:
            connection.execute(TRACE_EVAL_JOBS.insert(), jobs)

    return change


def store(api, traces, jobs=()):
    api.portal.call(api.app.state.traces.write, insert(traces, jobs))


def past(count, hours=24, until=HOUR):
    """So many times, evenly spread over some hours that ended some time ago."""
    end = now() - until
    return [end - int((count - place) * hours * HOUR / count) for place in range(count)]


def add_alert(api, project, headers=None, **body):
    body = {"name": "alert", "kind": "CHANGE", "metric": "ERROR_RATE", **body}
    answer = api.post(ALERTS.format(project), json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()


def watch(api):
    """Show all alerts what there is."""
    api.portal.call(api.app.state.trace_alerts.watch)


def set_after(api, alert, moment):
    """Have an alert begin at a time, not when it was created."""
    from sqlalchemy import update

    from dokimos.server._db.trace_alert_tables import TRACE_ALERTS

    def change(connection):
        chosen = update(TRACE_ALERTS).where(TRACE_ALERTS.c.id == alert)
        connection.execute(chosen.values(after=first_id(moment)))

    api.portal.call(api.app.state.unaudited_database.write, change)

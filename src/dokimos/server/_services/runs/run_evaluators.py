"""What a client says about the evaluators of a run once it knows them, which may be at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection

from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.tables import RUN_EVALUATORS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.projects.names import check_name
from dokimos.server._services.runs.run_parts import EvaluatorOfRun
from dokimos.server._services.runs.runs import find_run

_DESCRIBED: Final = ("range_low", "range_high", "direction", "threshold", "fingerprint", "deterministic")


def describe_evaluators(
    connection: Connection, principal: Principal, run_id: str, evaluators: Sequence[EvaluatorOfRun]
) -> None:
    """Keep what is known about the evaluators of a run; their counts of scores stay.

    Raises:
        NotFoundError: There is no such run that the caller sees.
        InvalidRequestError: An evaluator has a name that cannot be used.
    """
    run = find_run(connection, principal, run_id, for_update=True)
    principal.check_may_write(run.tenant_id, "The run", project=run.project_id)
    rows = {
        evaluator.name: {
            "run_id": run_id,
            "name": check_name(evaluator.name, f"evaluators[{position}].name"),
            "position": position,
            **{name: getattr(evaluator, name) for name in _DESCRIBED},
        }
        for position, evaluator in enumerate(evaluators)
    }
    if not rows:
        return
    statement = INSERTS[connection.dialect.name](RUN_EVALUATORS)
    changes = {name: statement.excluded[name] for name in ("position", *_DESCRIBED)}
    statement = statement.on_conflict_do_update(index_elements=["run_id", "name"], set_=changes)
    connection.execute(statement, list(rows.values()))

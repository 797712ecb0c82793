"""What online evaluations say of a trace."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection


def read_eval_jobs(connection: Connection, trace_row_id: str) -> list[dict[str, Any]]:
    """Return the jobs of a trace as the detail of it shows them; there are none until there are rules."""
    return []

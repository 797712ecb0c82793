"""What online evaluations say of a trace."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from dokimos.server._db.database import Database
from dokimos.server._services.accounts.principal import Principal


async def find_eval_jobs(database: Database, principal: Principal, trace: Row[Any]) -> list[dict[str, Any]]:
    """Return the jobs of a trace as the detail of it shows them; there are none until there are rules."""
    return []

"""The models of judge jobs: behind a connection, with a budget and a store for what they answer."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Row

from dokimos.errors import ConfigurationError
from dokimos.server._db.database import Database
from dokimos.server._services.encryption.secret_vault import SecretVault
from dokimos.server._services.errors import ConflictError
from dokimos.server._services.judging.judge_budgets import Limits, limits_of
from dokimos.server._services.judging.judge_call_bounds import CallBounds, check_prices
from dokimos.server._services.judging.judge_jobs import read_budget
from dokimos.server._services.judging.judge_leases import LeasedJob
from dokimos.server._services.judging.judge_ledger import JudgeLedger
from dokimos.server._services.models.model_access import ConnectionProblem, load_model
from dokimos.server._settings import ServerSettings
from dokimos.server._workers.job_model import JobModel, ModelProblem

if TYPE_CHECKING:
    from dokimos.judges._run_scope import RunScope

_LOGGER: Final = logging.getLogger("dokimos.server")


class JobModels:
    """Opens the models of jobs."""

    def __init__(self, database: Database, settings: ServerSettings, vault: SecretVault) -> None:
        self._database = database
        self._settings = settings
        self._vault = vault

    async def open(self, job: Row[Any]) -> JobModel | None:
        """Return the model of a job, as `Models` says."""
        if job.connection_id is None:
            return None
        stored = None if job.budget is None else json.loads(job.budget)
        limits = limits_of(self._settings.judging, read_budget(stored))
        leased = LeasedJob(job_id=job.id, project_id=job.project_id, tenant_id=job.tenant_id, lease=job.lease)
        return await self.open_leased(leased, job.connection_id, limits)

    async def open_leased(self, leased: LeasedJob, connection_id: str, limits: Limits) -> JobModel:
        """Return the model of anything that is worked on under a lease.

        Args:
            leased: Whose ledger has the calls.
            connection_id: The model.
            limits: What the calls may cost.

        Raises:
            ModelProblem: It cannot be asked.
        """
        from dokimos._http.breaker import Breakers
        from dokimos.judges._run_scope import RunScope

        try:
            access = await load_model(self._database, self._vault, self._settings, connection_id)
            check_prices(limits, access.name, access.judge.model, access.judge.prices)
        except ConnectionProblem as problem:
            # Whoever reads the run may not know which variables and hosts the server has.
            _LOGGER.warning("Judge job %s: %s", leased.job_id, problem)
            raise ModelProblem(
                "The key of the LLM connection cannot be used, or its address may not be called; the "
                "connection's 'problem' and its test say why."
            ) from None
        except (ConflictError, ConfigurationError) as problem:
            raise ModelProblem(str(problem)) from None
        ledger = JudgeLedger(self._database, leased, limits, CallBounds.of(access.judge))
        await ledger.open()
        # Without keys to retry: what was of no use is asked for again only where somebody has errors retried.
        scope = RunScope(
            budget=ledger,
            call_stores=(ledger,),
            in_flight={},
            breakers=Breakers(),
            evaluator_timeout=self._settings.judging.item_seconds,
        )

        async def close() -> None:
            await ledger.close()
            await _cancel_calls(scope)

        return JobModel(judge=access.judge, scope=scope, close=close)


async def _cancel_calls(scope: RunScope) -> None:
    """End the calls that nobody waits for any more, which would be sent again and again while they fail."""
    calls = list((scope.in_flight or {}).values())
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)

"""The model of a judge job, as whoever works on the job needs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import Row

if TYPE_CHECKING:
    from dokimos.judges._protocol import JudgeLM
    from dokimos.judges._run_scope import RunScope


class ModelProblem(Exception):
    """The model of a job cannot be asked at all, whatever it is asked; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobModel:
    """The model of a job, and what is kept of its calls."""

    judge: JudgeLM
    scope: RunScope
    """In which the evaluator runs: its budget and its call stores."""
    close: Callable[[], Awaitable[None]]
    """Stores what is not stored yet of the calls; called while the job is still this server's."""


class Models(Protocol):
    """Opens the models of jobs."""

    async def open(self, job: Row[Any]) -> JobModel | None:
        """Return the model of a job, None for one that asks none.

        Raises:
            ModelProblem: It cannot be asked.
        """
        ...

"""The declared agent as the application of a suite; Pydantic AI is imported when its first case begins."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final
from weakref import WeakKeyDictionary, WeakSet

from dokimos._core.extras import require
from dokimos._core.jsonable import jsonable
from dokimos._runtime.concurrency import call_in_thread
from dokimos._runtime.start_collector import start_collector
from dokimos.suites._agent.agent_plan import AgentPlan
from dokimos.suites._agent.inputs import Files
from dokimos.suites._agent.models import EXTRA
from dokimos.suites._targets import Reply

if TYPE_CHECKING:
    from dokimos.suites._agent.backend import Backend

NAMED: Final = ("author", "description", "tags")
"""What front matter says under names of its own, besides the version; the rest is `extra`."""


@dataclass(frozen=True, kw_only=True)
class DeclaredAgent:
    """Opens a conversation for each case; all of them share the connections of their event loop."""

    counts_own_calls: ClassVar[bool] = True
    """Each call of its model asks the budget, so the reply as a whole does not."""

    plan: AgentPlan
    files: Files
    _backends: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[Backend]] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False, compare=False
    )
    _worked: WeakSet[asyncio.AbstractEventLoop] = field(
        default_factory=WeakSet, init=False, repr=False, compare=False
    )
    """The event loops in which it could be started once."""

    @property
    def label(self) -> str:
        """Provider and model."""
        return self.plan.label

    @property
    def identity(self) -> str:
        """What tells this agent from another."""
        return self.plan.identity

    @property
    def about(self) -> Mapping[str, Any]:
        """What a run keeps of the agent: its model and the version of its instructions."""
        prompt = self.plan.prompt
        matter = {key: value for key, value in prompt.front_matter.items() if key != "version"}
        prompt_fields: dict[str, Any] = {key: matter.pop(key) for key in NAMED if key in matter}
        if matter:
            own = matter.pop("extra", {})
            prompt_fields["extra"] = {**own, **matter} if isinstance(own, dict) else {"extra": own, **matter}
        about = {"model": self.plan.label, "promptVersion": prompt.version}
        return {**about, "prompt": jsonable(prompt_fields)} if prompt_fields else about

    async def __call__(self) -> Reply:
        backend = await self._backend()
        return backend.conversation(self.files, self._backend)

    async def aclose(self) -> None:
        """Close the connections of this event loop; the end of the loop does so too."""
        starting = self._backends.pop(asyncio.get_running_loop(), None)
        if starting is None:
            return
        if not starting.done():
            starting.cancel()
        await asyncio.wait((starting,))
        if not starting.cancelled() and starting.exception() is None:
            await starting.result().close()

    async def _backend(self) -> Backend:
        """Return what runs the agent in this event loop; it is started once, unless a server of it ends.

        Where it could not be started at all, nobody tries again; a server that was there may come back.
        """
        loop = asyncio.get_running_loop()
        starting = self._backends.get(loop)
        if starting is None or _is_used_up(starting, worked=loop in self._worked):
            starting = self._backends[loop] = loop.create_task(self._start_backend())
        # Shared by all cases of the loop: one that is cancelled must not cancel the start for the others.
        return await asyncio.shield(starting)

    async def _start_backend(self) -> Backend:
        backend = await (await call_in_thread(_build_backend, self.plan)).start()
        self._worked.add(asyncio.get_running_loop())
        return backend


def _is_used_up(starting: asyncio.Task[Backend], *, worked: bool) -> bool:
    """Whether another backend is to be started."""
    if not starting.done() or starting.cancelled():
        return False
    return worked if starting.exception() is not None else not starting.result().is_usable


def _build_backend(plan: AgentPlan) -> Backend:
    """Import what is needed, in a thread: it takes seconds, in which Ctrl-C has to be heard."""
    with start_collector.pause():
        require("pydantic_ai", EXTRA)
        from dokimos.suites._agent.backend import Backend

        return Backend(plan)

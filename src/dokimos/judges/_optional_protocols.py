"""What a judge, an embedder or a task may have beside what it must have; dokimos looks for it by these names.

None of it has to be there, and nothing has to inherit from these protocols: they say what the members are
called and what they mean. `isinstance` tells whether an object has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from dokimos._core.metrics import CallMetrics
    from dokimos.judges._judge_calls import CallStore
    from dokimos.judges._protocol import JudgeLM


@runtime_checkable
class Identified(Protocol):
    """A judge or an embedder that names itself: its replies are cached and recorded under this name.

    Without it, the identity is the class and a hash of the values that the object was made with.

    Example:
        >>> isinstance(judge("openai:gpt-5-mini", api_key="sk-..."), Identified)
        True
    """

    @property
    def identity(self) -> str:
        """Endpoint, model and parameters, the same in every process, and never a key."""
        ...


@runtime_checkable
class AsyncClosable(Protocol):
    """A judge or a task that holds connections or processes.

    A run closes its task at its end; whoever makes a judge closes it. The object must be usable again after
    that, with new connections, and may be closed more than once.
    """

    async def aclose(self) -> None:
        """Close what this event loop has open."""
        ...


@runtime_checkable
class WithLogprobs(Protocol):
    """A judge that can report token probabilities, which G-Eval and juries weigh scores by."""

    def with_logprobs(self, top: int = 5) -> JudgeLM:
        """Return a judge that asks for the `top` most likely tokens in the place of each."""
        ...


@runtime_checkable
class WrapsJudge(Protocol):
    """A judge around another one; the call stores of the inner one are used, too."""

    @property
    def judge(self) -> JudgeLM:
        """The judge inside."""
        ...


@runtime_checkable
class HasCallStores(Protocol):
    """A judge with call stores of its own, such as a cassette; they are asked before those of the run."""

    @property
    def call_stores(self) -> Sequence[CallStore]:
        """The stores, in the order in which they are asked."""
        ...


@runtime_checkable
class CountsOwnCalls(Protocol):
    """A task, or the application of a suite, whose own model calls go through the budget of the run.

    What it reports as the cost of an item then is not counted a second time.
    """

    @property
    def counts_own_calls(self) -> bool:
        """Whether it does."""
        ...


@runtime_checkable
class Batches(Protocol):
    """An embedder that says how it is to be asked; others get 128 texts at once, one request at a time."""

    @property
    def batch_size(self) -> int:
        """How many texts it takes in one request."""
        ...

    @property
    def concurrency(self) -> int:
        """How many requests may be made at the same time."""
        ...


@runtime_checkable
class PricesCalls(Protocol):
    """A price table that is asked for whole calls, so that it can price cached tokens."""

    def cost(self, metrics: CallMetrics) -> float | None:
        """Return what a call cost in dollars, None where that is not known."""
        ...

"""Asking language models for a verdict: protocol, providers, and what makes the answers trustworthy.

What a judge, an embedder or a task may have beside what it must have is here as protocols.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dokimos.judges.optional_protocols import AsyncClosable as AsyncClosable
    from dokimos.judges.optional_protocols import Batches as Batches
    from dokimos.judges.optional_protocols import CountsOwnCalls as CountsOwnCalls
    from dokimos.judges.optional_protocols import HasCallStores as HasCallStores
    from dokimos.judges.optional_protocols import Identified as Identified
    from dokimos.judges.optional_protocols import PricesCalls as PricesCalls
    from dokimos.judges.optional_protocols import WithLogprobs as WithLogprobs
    from dokimos.judges.optional_protocols import WrapsJudge as WrapsJudge

# Lazy: every module of this package loads it, and most need none of these.
__all__ = [
    "AsyncClosable",
    "Batches",
    "CountsOwnCalls",
    "HasCallStores",
    "Identified",
    "PricesCalls",
    "WithLogprobs",
    "WrapsJudge",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("dokimos.judges.optional_protocols"), name)

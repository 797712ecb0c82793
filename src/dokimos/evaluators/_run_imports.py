"""What async and blocking evaluators need of a run and of asyncio, imported by the first of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dokimos.judges._run_scope import RunScope, counting_usage


@cache  # an import within a function takes longer than a quick score
def run_scope() -> tuple[Callable[[], RunScope], type[counting_usage]]:
    """Return `current_scope` and `counting_usage`."""
    from dokimos.judges._run_scope import counting_usage, current_scope

    return current_scope, counting_usage


def is_cancellation(error: BaseException) -> bool:
    """Say whether an error is that of a cancelled task."""
    import asyncio

    return isinstance(error, asyncio.CancelledError)

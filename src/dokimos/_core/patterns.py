"""Regular expressions that people wrote, on texts that models wrote: a search that ends."""

from __future__ import annotations

import re
from typing import Final

from dokimos._core.pattern_cost import longest_safe_text
from dokimos._runtime.search_process import SearchProcessError, Span, search_process
from dokimos.errors import EvaluationError

LIMIT_SECONDS: Final = 2.0
"""How much CPU time one search may take."""


def search_within_limit(pattern: re.Pattern[str], text: str, *, whole: bool = False) -> Span | None:
    """Return where a pattern first matches, or where it matches the whole text; None if it does not.

    A pattern such as `(a+)+$` may take longer than the universe has existed, and no thread can end it. So
    where a search could take long on a text of this length, a process does it that can be ended. Where none
    can be started (a frozen program, a system without processes), such a search has no limit.

    Raises:
        EvaluationError: when the search took more than `LIMIT_SECONDS`.
    """
    if len(text) <= longest_safe_text(pattern, whole=whole):
        return _search(pattern, text, whole)
    try:
        return search_process.search(pattern, text, whole=whole, limit=LIMIT_SECONDS)
    except SearchProcessError:
        return _search(pattern, text, whole)
    except TimeoutError:
        raise EvaluationError(
            f"The search for {pattern.pattern[:80]!r} was stopped after {LIMIT_SECONDS:g} s on a text of "
            f"{len(text)} characters: the pattern backtracks too much. Make its inner repeats possessive, "
            "such as (a++)+, or put them into an atomic group, such as (?>a+)."
        ) from None


def _search(pattern: re.Pattern[str], text: str, whole: bool) -> Span | None:
    match = pattern.fullmatch(text) if whole else pattern.search(text)
    return match.span() if match is not None else None

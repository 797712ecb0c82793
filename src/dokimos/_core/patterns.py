"""Regular expressions that people wrote, on texts that models wrote: a search that ends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from dokimos._core.pattern_cost import longest_safe_text
from dokimos._runtime.search_process import SearchProcess, SearchProcessError, Span, search_process
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


def replace_within_limit(
    replacements: Sequence[tuple[str, str]],
    texts: Sequence[str],
    *,
    limit: float = LIMIT_SECONDS,
    process: SearchProcess = search_process,
) -> tuple[list[str], list[int]]:
    """Return texts with all matches of patterns replaced, and how often each pattern matched.

    Args:
        replacements: Patterns, each with what takes the place of its matches; one after the other.
        texts: Which share the limit.
        limit: Seconds of CPU time.
        process: That does it, one call after the other.

    Raises:
        EvaluationError: it took longer, or there is no process that could be ended: unlike a search, this
            does without neither.
    """
    try:
        return process.replace(replacements, texts, limit=limit)
    except SearchProcessError as error:
        raise EvaluationError(f"No process can be started that replaces texts: {error}") from None
    except TimeoutError:
        raise EvaluationError(
            f"Replacing was stopped after {limit:g} s on {sum(map(len, texts))} characters: a pattern "
            "backtracks too much. Make its inner repeats possessive, such as (a++)+."
        ) from None

"""One verdict for each of several numbered things: claims, statements, chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from dokimos._core.text import format_list, pluralize
from dokimos.evaluators._llm.rating import REASON_DISABLED
from dokimos.judges._ask import ask
from dokimos.judges._fencing import fence_rule
from dokimos.judges._protocol import JudgeLM
from dokimos.judges._shapes import YesNo, YesNoUnsure

MOST_QUOTED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Yes or no to one thing."""

    # The order of the fields is that of the reply: a verdict that comes after its reason follows from it.
    number: int = 0
    """Which one; 0 where the judge left it out."""
    reason: str = ""
    verdict: YesNo


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsureVerdict:
    """Yes or no to one thing, or "idk" where the material says nothing about it."""

    number: int = 0
    reason: str = ""
    verdict: YesNoUnsure


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What a judge replies that is asked for a yes or no to each."""

    verdicts: list[Verdict]


@dataclass(frozen=True, slots=True)
class UnsureVerdicts:
    """What a judge replies that may also be unsure."""

    verdicts: list[UnsureVerdict]


class Numbered(Protocol):
    """An entry that says which thing it is about."""

    @property
    def number(self) -> int:
        """1-based, or 0 where the judge left it out."""
        ...


N = TypeVar("N", bound=Numbered)


async def verdicts_on(judge: JudgeLM, prompt: str, count: int, *, sample: int) -> tuple[Verdict, ...]:
    """Ask for a yes or no to each of `count` things; any other number of answers is a bad reply."""
    answer = await ask(
        judge, prompt, Verdicts, check=lambda reply: check_numbers(reply.verdicts, count), sample=sample
    )
    return in_order(answer.verdicts)


async def unsure_verdicts_on(
    judge: JudgeLM, prompt: str, count: int, *, sample: int
) -> tuple[UnsureVerdict, ...]:
    """Ask for a yes, no or idk to each of `count` things; any other number of answers is a bad reply."""
    answer = await ask(
        judge, prompt, UnsureVerdicts, check=lambda reply: check_numbers(reply.verdicts, count), sample=sample
    )
    return in_order(answer.verdicts)


def check_numbers(entries: Sequence[Numbered], count: int) -> None:
    """Raise `ValueError` unless there is exactly one entry for each of 1..`count`.

    Weak models omit numbers (0) or count from 0; that does no harm where the order is right.
    """
    if len(entries) != count:
        raise ValueError(f"there should be {pluralize(count, 'entry', 'entries')}, not {len(entries)}")
    numbers = [entry.number for entry in entries]
    # 0 is the default of a missing number, and also where a judge starts to count.
    if 0 in numbers:
        fits = numbers == list(range(count)) or all(
            n in (0, position) for position, n in enumerate(numbers, 1)
        )
    else:
        fits = sorted(numbers) == list(range(1, count + 1))
    if not fits:
        raise ValueError(f"the numbers should be 1 to {count}, each once, not {numbers}")


def in_order(entries: Sequence[N]) -> tuple[N, ...]:
    """Return entries by their number, or as they are where numbers were left out."""
    if any(entry.number == 0 for entry in entries):
        return tuple(entries)
    return tuple(sorted(entries, key=lambda entry: entry.number))


def verdict_prompt(
    question: str,
    *sections: str,
    count: int,
    noun: str,
    contents: str = "a reason of a few words, the verdict",
) -> str:
    """Return a question about each of `count` numbered things."""
    request = (
        f"Give {pluralize(count, 'entry', 'entries')}, one for each {noun} [1] to [{count}] in order: "
        f"its number, {contents}."
    )
    paragraphs = (question, fence_rule(), *sections, request)
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def verdicts_metadata(
    what: str, things: Sequence[str], verdicts: Sequence[Verdict | UnsureVerdict]
) -> list[dict[str, Any]]:
    """Return verdicts for the metadata."""
    return [
        {what: thing, "verdict": entry.verdict, "reason": entry.reason}
        for thing, entry in zip(things, verdicts, strict=True)
    ]


def build_reason(share: str, failed: Sequence[str], *, but: str, enabled: bool) -> str:
    """Return `2 of 3 claims are supported; not: 'x'.`, or the fixed text where reasons are switched off."""
    if not enabled:
        return REASON_DISABLED
    return f"{share}; {but}: {format_list(tuple(failed), limit=MOST_QUOTED)}." if failed else f"{share}."

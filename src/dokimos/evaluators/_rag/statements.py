"""Split texts into statements, once for all evaluators of an item (request coalescing per item)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dokimos.evaluators._llm.case_sections import number_lines, section
from dokimos.evaluators._rag.base import in_windows
from dokimos.judges._ask import ask
from dokimos.judges._fencing import fence_rule
from dokimos.judges._protocol import JudgeLM, identity_of
from dokimos.judges._run_scope import once_per_item


@dataclass(frozen=True, slots=True)
class Statements:
    """What a judge replies that takes a text apart."""

    statements: list[str]

    @property
    def texts(self) -> tuple[str, ...]:
        """Each on one line, without empty ones."""
        return tuple(text for text in (" ".join(s.split()) for s in self.statements) if text)


async def claims_of(judge: JudgeLM, text: str, *, sample: int) -> tuple[str, ...]:
    """Return the claims that a text makes: one call, shared by the evaluators of an item."""
    if not text.strip():
        return ()
    # With the sample: independent samples must not share their claims.
    key = ("claims", identity_of(judge), text, sample)
    return await once_per_item(key, lambda: _extract(judge, claims_prompt(text), sample))


async def truths_of(judge: JudgeLM, chunks: Sequence[str], window: int, *, sample: int) -> tuple[str, ...]:
    """Return the facts that a context states: a call for each window, shared by the evaluators of an item."""
    truths: list[str] = []
    for group in in_windows([chunk for chunk in chunks if chunk.strip()], window):
        truths += await _truths_of_group(judge, tuple(group), sample)
    return tuple(truths)


def claims_prompt(text: str) -> str:
    """Return the request for the claims of a text."""
    return "\n\n".join(
        [
            "Split a text into its claims. A claim is one short sentence with one piece of information, in "
            "the text's own words, that can be understood alone: put names in the place of pronouns. Keep "
            "what is wrong as it is. Leave out greetings, questions and offers; without claims, the list is "
            "empty.\n"
            'Example: "Hi! Ada was born in 1815 and wrote programs." gives '
            '["Ada was born in 1815.", "Ada wrote programs."]',
            fence_rule(),
            section("Text", text),
            "Now split this text into its claims.",
        ]
    )


def truths_prompt(chunks: Sequence[str]) -> str:
    """Return the request for the facts in a context."""
    return "\n\n".join(
        [
            "List the facts that the context states. Each fact is one short sentence that can be understood "
            "alone. Leave no fact out, and add none that is not there.",
            fence_rule(),
            number_lines("Context", chunks),
            "Now list the facts of the context.",
        ]
    )


async def _truths_of_group(judge: JudgeLM, chunks: tuple[str, ...], sample: int) -> tuple[str, ...]:
    key = ("truths", identity_of(judge), chunks, sample)
    return await once_per_item(key, lambda: _extract(judge, truths_prompt(chunks), sample))


async def _extract(judge: JudgeLM, prompt: str, sample: int) -> tuple[str, ...]:
    return (await ask(judge, prompt, Statements, sample=sample)).texts

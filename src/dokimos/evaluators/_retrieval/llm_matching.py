"""Telling by a model that two items mean the same."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from dokimos._core.jsonable import text_form
from dokimos.evaluators._json_tree import identity_key
from dokimos.evaluators._llm.case_sections import section
from dokimos.judges._ask import ask
from dokimos.judges._fencing import fence_rule
from dokimos.judges._protocol import JudgeLM, identity_of
from dokimos.judges._shapes import YesNo

_YES_OR_NO: Final = re.compile(r"[\s\"'*_#>`(]*(yes|no)\b(?!\s*(?:and|or|/)\s*(?:yes|no)\b)", re.IGNORECASE)
"""Matches "Yes, both do.", and neither "nothing" nor "yes and no"."""


@dataclass(frozen=True, slots=True)
class SameMeaning:
    """What a judge replies that compares two items."""

    verdict: YesNo


@dataclass(frozen=True)
class LlmMatching:
    """Matches items that a judge says mean the same: one call for each pair that is not equal anyway."""

    judge: JudgeLM
    is_async: bool = field(default=True, init=False)

    @property
    def identity(self) -> str:
        """What tells this strategy apart in a record of the configuration."""
        return f"llm:{identity_of(self.judge)}"

    async def __call__(self, retrieved: object, relevant: object) -> bool:
        if identity_key(retrieved) == identity_key(relevant):
            return True
        prompt = matching_prompt(retrieved, relevant)
        answer = await ask(self.judge, prompt, SameMeaning, parse=_first_word)
        return answer.verdict == "yes"


def _first_word(reply: str) -> SameMeaning | None:
    """Read a reply that begins with yes or no, as judges write that keep to no form."""
    match = _YES_OR_NO.match(reply)
    return None if match is None else SameMeaning("yes" if match[1].casefold() == "yes" else "no")


def matching_prompt(retrieved: object, relevant: object) -> str:
    """Return the question whether two items mean the same."""
    return "\n\n".join(
        [
            "Do these two items give the same information? Wording does not count.\n"
            "- yes: the retrieved item says what the relevant one says\n"
            "- no: it says something else, or only a part of it",
            fence_rule(),
            section("Retrieved", text_form(retrieved)),
            section("Relevant", text_form(relevant)),
        ]
    )

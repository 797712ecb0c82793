"""What the evaluators of retrieval and of answers that rest on it have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dokimos.core.jsonable import text_form
from dokimos.core.keys import CONTEXT
from dokimos.core.test_case import EvalTestCase
from dokimos.core.text import quoted
from dokimos.errors import EvaluationError, MissingInputError
from dokimos.evaluators.checks import check_text
from dokimos.evaluators.judged.base import JudgedEvaluator
from dokimos.judges.calls import complete
from dokimos.judges.protocol import JudgeLM

RETRIEVAL_CONTEXT: Final = "retrievalContext"
WINDOW: Final = 20_000
"""Characters of context in one call, about 5,000 tokens of English."""

_CONTEXT_KEYS: Final = ("context", RETRIEVAL_CONTEXT, "retrievedContext", "retrieval_context", "contexts")


@dataclass(frozen=True, kw_only=True)
class RagEvaluator(JudgedEvaluator):
    """The base of the evaluators that need retrieved context."""

    include_reason: bool = True
    """Whether results explain themselves; where the judge writes the summary, it costs a call."""
    threshold: float | None = 0.5

    def chunks(self, case: EvalTestCase, key: str) -> tuple[str, ...]:
        """Return the context under a key of the actual outputs, else of the metadata, chunk by chunk.

        Raises:
            EvaluationError: when there is none, or it is neither text nor a list.
        """
        value = case.actual_outputs.get(key)
        if value is None:
            value = case.metadata.get(key)
        if value is None:
            raise MissingInputError(_not_found(self.name, case, key))
        if isinstance(value, str):
            return (value,)
        if isinstance(value, list | tuple):
            return tuple(text_form(chunk) or "" for chunk in value)
        raise EvaluationError(
            f"{self.name} needs text or a list under {key!r}, not {type(value).__name__}: {quoted(value)}."
        )


@dataclass(frozen=True, kw_only=True)
class ContextEvaluator(RagEvaluator):
    """The base of those that look at the context which an answer rests on."""

    context_key: str = CONTEXT
    """The key of the context in the actual outputs or the metadata: a text or a list of chunks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text(self, "context_key", self.context_key)

    def context(self, case: EvalTestCase) -> tuple[str, ...]:
        return self.chunks(case, self.context_key)


@dataclass(frozen=True, kw_only=True)
class RetrievalEvaluator(RagEvaluator):
    """The base of those that look at what was retrieved."""

    retrieval_context_key: str = RETRIEVAL_CONTEXT
    """The key of the retrieved chunks, best first, in the actual outputs or the metadata."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text(self, "retrieval_context_key", self.retrieval_context_key)

    def retrieved(self, case: EvalTestCase) -> tuple[str, ...]:
        return self.chunks(case, self.retrieval_context_key)


def in_windows(chunks: Sequence[str], window: int) -> list[list[str]]:
    """Return chunks in groups of at most `window` characters; a chunk that is longer is alone."""
    groups: list[list[str]] = []
    room = 0
    for chunk in chunks:
        if not groups or len(chunk) > room:
            groups.append([])
            room = window
        groups[-1].append(chunk)
        room -= len(chunk)
    return groups


async def summary(judge: JudgeLM, prompt: str, *, sample: int, otherwise: str) -> str:
    """Ask for a summary in one sentence; `otherwise` stands in for an empty one."""
    reply = await complete(judge, f"{prompt}\n\nReply with that one sentence only.", sample=sample)
    return reply.text.strip() or otherwise


def _not_found(name: str, case: EvalTestCase, key: str) -> str:
    message = f"{name} needs {key!r} in the actual outputs or the metadata, which this case lacks."
    others = [k for k in _CONTEXT_KEYS if k != key and (k in case.actual_outputs or k in case.metadata)]
    return f"{message} It has {others[0]!r}: name that as the key." if others else message

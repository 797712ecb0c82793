"""The shared base of evaluators of retrieval, and of answers that rest on retrieved contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from dokimos._core.contexts import OF_ANSWERS, OF_RETRIEVERS, Chunk, chunks_of
from dokimos._core.keys import CONTEXTS
from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators._llm.base import JudgedEvaluator
from dokimos.evaluators._missing_parts import missing_part
from dokimos.evaluators._setting_checks import check_text
from dokimos.judges._judge_calls import complete
from dokimos.judges._protocol import JudgeLM

WINDOW: Final = 20_000
"""Characters of context in one call, about 5,000 tokens of English."""


@dataclass(frozen=True, kw_only=True)
class RagEvaluator(JudgedEvaluator):
    """The base of the evaluators of answers that rest on retrieved contexts."""

    include_reason: bool = True
    """Whether results explain themselves; where the judge writes the summary, it costs a call."""
    threshold: float | None = 0.5


@dataclass(frozen=True, kw_only=True)
class ContextEvaluator(RagEvaluator):
    """The base of those that look at the contexts which an answer rests on."""

    context_names: ClassVar[Sequence[str]] = OF_ANSWERS
    """The names of the contexts, the one that counts first."""

    contexts_key: str | None = None
    """The key of the contexts (a text, a document or a list of them) in the outputs, the metadata or the
    inputs, where it is not one of their usual names."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.contexts_key is not None:
            check_text(self, "contexts_key", self.contexts_key)
            own = f"{CONTEXTS}.{self.contexts_key}"
            object.__setattr__(
                self, "requires", tuple(own if path == CONTEXTS else path for path in self.requires)
            )

    def chunks(self, case: EvalTestCase) -> tuple[Chunk, ...]:
        """Return the contexts, chunk by chunk.

        Raises:
            EvaluationError: when there are none, or they cannot be read.
        """
        own = self.contexts_key
        contexts = case.find_contexts(self.context_names if own is None else (own,), texts=own is None)
        if contexts is None:
            raise missing_part(self.name, CONTEXTS if own is None else f"{CONTEXTS}.{own}", case)
        return chunks_of(contexts)

    def contexts(self, case: EvalTestCase) -> tuple[str, ...]:
        """Return the texts of the contexts; raises `EvaluationError` as `chunks` does."""
        return tuple(chunk.text for chunk in self.chunks(case))


@dataclass(frozen=True, kw_only=True)
class RetrieverEvaluator(ContextEvaluator):
    """The base of those that look at what was retrieved, best first."""

    context_names: ClassVar[Sequence[str]] = OF_RETRIEVERS


def in_windows(chunks: Sequence[str], window: int) -> list[list[str]]:
    """Return chunks in groups of at most `window` characters; a chunk that is longer is alone."""
    groups: list[list[str]] = []
    room = 0
    for chunk in chunks:
        # Greedy, in order: a chunk is never split, since half of it may not support what the whole does.
        if not groups or len(chunk) > room:
            groups.append([])
            room = window
        groups[-1].append(chunk)
        room -= len(chunk)
    return groups


async def summary(judge: JudgeLM, prompt: str, *, sample: int, otherwise: str) -> str:
    """Ask for a summary in one sentence; `otherwise` is used for an empty one."""
    reply = await complete(judge, f"{prompt}\n\nReply with that one sentence only.", sample=sample)
    return reply.text.strip() or otherwise

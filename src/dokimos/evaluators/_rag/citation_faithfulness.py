"""`CitationFaithfulness`: whether the cited chunks support the answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from dokimos._core.contexts import Chunk
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import pluralize
from dokimos.evaluators._llm.case_sections import number_lines
from dokimos.evaluators._llm.verdicts import (
    Verdict,
    build_reason,
    verdict_prompt,
    verdicts_metadata,
    verdicts_on,
)
from dokimos.evaluators._rag.base import ContextEvaluator

# At most 100 characters: a bracketed passage is not a citation.
_CITATION: Final = re.compile(r"\[([^\[\]\n]{1,100})\]")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])((?:\s*\[[^\[\]\n]{1,100}\])*)\s+(?=\S)|\n+")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the output and what it cites, if anything."""

    text: str
    """Without its citations."""
    cited_chunks: tuple[int, ...]
    """1-based numbers of the chunks it cites; 0 for one that does not exist."""


@dataclass(frozen=True, kw_only=True)
class CitationFaithfulness(ContextEvaluator):
    """Share of the citing sentences of the output whose cited chunks support them; 0 when nothing is cited.

    Citations are written `[2]` or `[1, 3]`, by the place of a chunk in the context, or `[id]` where chunks
    are maps with an `id`. A sentence that cites a chunk that does not exist is not supported. One call;
    none where no sentence cites an existing chunk. After the citation recall of Gao et al., "Enabling Large
    Language Models to Generate Text with Citations" (2023), which also counts sentences without citation.

    Example:
        >>> reply = '{"verdicts": [{"verdict": "yes"}]}'
        >>> case = EvalTestCase.of("Returns?", "Within 30 days [1].", contexts=["Returns: 30 days."])
        >>> CitationFaithfulness(judge=lambda prompt: reply).evaluate(case).score
        1.0
    """

    method_source = (
        'Citation recall of Gao et al., "Enabling Large Language Models to Generate Text with Citations" '
        "(2023)."
    )
    judge_calls = "1; 0 where no sentence cites an existing chunk"
    default_name = "Citation Faithfulness"
    requires: ClassVar[tuple[str, ...]] = ("actual_output", "contexts")

    require_citations: bool = False
    """Count sentences without a citation as not supported."""

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        retrieved = self.chunks(case)
        chunks = [chunk.text for chunk in retrieved]
        sentences = parse_sentences(case.actual_output or "", _number_chunks(retrieved))
        judged_sentences = [s for s in sentences if s.cited_chunks or self.require_citations]
        # An answer without citations cannot be supported by them: 0, without a call.
        if not any(s.cited_chunks for s in sentences):
            reason = build_reason("The output cites nothing", (), but="", enabled=self.include_reason)
            return Score(0.0, reason, metadata={"sentences": [], "uncited": len(sentences)})
        verdicts = await self._judge_sentences(chunks, judged_sentences, sample)
        failed = [
            sentence.text
            for sentence, verdict in zip(judged_sentences, verdicts, strict=True)
            if verdict.verdict == "no"
        ]
        supported = len(judged_sentences) - len(failed)
        share = f"The citations support {supported} of {pluralize(len(judged_sentences), 'sentence')}"
        uncited = sum(not sentence.cited_chunks for sentence in sentences)
        return Score(
            supported / len(judged_sentences),
            build_reason(share, failed, but="not", enabled=self.include_reason),
            metadata=_metadata(judged_sentences, verdicts, uncited=uncited),
        )

    async def _judge_sentences(
        self, chunks: Sequence[str], sentences: Sequence[Sentence], sample: int
    ) -> Sequence[Verdict]:
        verdicts = [_verdict_without_judge(sentence) for sentence in sentences]
        undecided = [
            sentence for sentence, verdict in zip(sentences, verdicts, strict=True) if verdict is None
        ]
        if not undecided:
            return [entry for entry in verdicts if entry is not None]
        answers = iter(
            await verdicts_on(self.lm, citations_prompt(chunks, undecided), len(undecided), sample=sample)
        )
        return [next(answers) if entry is None else entry for entry in verdicts]


def parse_sentences(text: str, numbers: Mapping[str, int]) -> list[Sentence]:
    """Return the sentences of a text and the chunks they cite.

    Brackets that hold neither numbers nor known ids are not citations.
    """
    return [sentence for part in _split_sentences(text) if (sentence := _parse_sentence(part, numbers)).text]


def citations_prompt(chunks: Sequence[str], sentences: Sequence[Sentence]) -> str:
    """Return the question whether the chunks that each sentence cites support it."""
    cited = sorted({number for sentence in sentences for number in sentence.cited_chunks})
    lines = [f"{s.text} (cites {', '.join(f'chunk [{n}]' for n in s.cited_chunks)})" for s in sentences]
    return verdict_prompt(
        "For each sentence, say whether the chunks that it cites support it. Other chunks and what you "
        "know do not count.\n"
        "- yes: the cited chunks, taken together, state all that the sentence says\n"
        "- no: they do not",
        number_lines("Chunks", [chunks[number - 1] for number in cited], numbers=cited),
        number_lines("Sentences", lines),
        count=len(sentences),
        noun="sentence",
    )


def _split_sentences(text: str) -> list[str]:
    """Split a text; citations after a full stop belong to the sentence before it."""
    parts, start = [], 0
    for end in _SENTENCE_END.finditer(text):
        parts.append(text[start : end.start()] + (end[1] or ""))
        start = end.end()
    return [*parts, text[start:]]


def _parse_sentence(sentence: str, numbers: Mapping[str, int]) -> Sentence:
    cited: list[int] = []

    def collect(bracket: re.Match[str]) -> str:
        names = [name.strip() for name in re.split("[,;]", bracket[1])]
        if not all(name.isdigit() or name in numbers for name in names):
            return bracket[0]
        cited.extend(numbers.get(name, 0) for name in names)
        return ""

    text = _CITATION.sub(collect, sentence)
    return Sentence(" ".join(text.split()), tuple(dict.fromkeys(cited)))


def _number_chunks(chunks: Sequence[Chunk]) -> Mapping[str, int]:
    """Return the number of each chunk by what it may be called."""
    numbers = {str(number): number for number in range(1, len(chunks) + 1)}
    return numbers | {chunk.id: number for number, chunk in enumerate(chunks, 1) if chunk.id is not None}


def _verdict_without_judge(sentence: Sentence) -> Verdict | None:
    if not sentence.cited_chunks:
        return Verdict(reason="It cites nothing.", verdict="no")
    if 0 in sentence.cited_chunks:
        return Verdict(reason="It cites a chunk that does not exist.", verdict="no")
    return None


def _metadata(sentences: Sequence[Sentence], verdicts: Sequence[Verdict], *, uncited: int) -> dict[str, Any]:
    entries = verdicts_metadata("sentence", [sentence.text for sentence in sentences], verdicts)
    with_chunks = [
        {**entry, "chunks": list(sentence.cited_chunks)}
        for entry, sentence in zip(entries, sentences, strict=True)
    ]
    return {"sentences": with_chunks, "uncited": uncited}

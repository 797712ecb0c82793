"""Which chunks helped towards the expected answer: shared by the evaluators that need to know."""

from __future__ import annotations

from collections.abc import Sequence

from dokimos.evaluators._llm.case_sections import number_lines, section
from dokimos.evaluators._llm.verdicts import Verdict, verdict_prompt, verdicts_on
from dokimos.evaluators._rag.base import in_windows
from dokimos.judges._protocol import JudgeLM, identity_of
from dokimos.judges._run_scope import once_per_item


async def useful_chunks(
    judge: JudgeLM, question: str, expected: str, chunks: Sequence[str], window: int, *, sample: int
) -> tuple[Verdict, ...]:
    """Say of each chunk whether it helps to give the expected answer: a call for each window."""
    key = ("useful", identity_of(judge), question, expected, tuple(chunks), window, sample)

    async def work_out() -> tuple[Verdict, ...]:
        verdicts: list[Verdict] = []
        for group in in_windows(chunks, window):
            prompt = usefulness_prompt(question, expected, group)
            verdicts += await verdicts_on(judge, prompt, len(group), sample=sample)
        return tuple(verdicts)

    return await once_per_item(key, work_out)


def usefulness_prompt(question: str, expected: str, chunks: Sequence[str]) -> str:
    """Return the question whether each chunk helps to give the expected answer."""
    return verdict_prompt(
        "A retriever found these chunks of context for an input, whose right answer is known. For each "
        "chunk, say whether it helps to give that answer.\n"
        "- yes: it states the answer or a part of it\n"
        "- no: it does not",
        section("Input", question),
        section("Right Answer", expected),
        number_lines("Chunks", chunks),
        count=len(chunks),
        noun="chunk",
    )

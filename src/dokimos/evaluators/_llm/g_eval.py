"""G-Eval: criteria become steps, and the score is weighted by how sure the judge was of it.

Liu et al., "G-Eval: NLG evaluation using GPT-4 with better human alignment" (2023), with the scale from 0
to 10 that DeepEval made usual.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

from dokimos._core.means import exact_mean
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators._llm.base import JudgedEvaluator
from dokimos.evaluators._llm.case_sections import (
    USUAL_PARTS,
    default_parts,
    label_of,
    material,
    select_parts,
)
from dokimos.evaluators._llm.rating import (
    Rated,
    Scale,
    ask_rating,
    rating_prompt,
    raw_score,
)
from dokimos.judges._ask import ask
from dokimos.judges._lenient_json import member_start
from dokimos.judges._optional_protocols import WithLogprobs
from dokimos.judges._protocol import JudgeLM, TokenLogprob, identity_of
from dokimos.judges._run_scope import once_per_run

MOST_STEPS: Final = 10
TOP_LOGPROBS: Final = 5
_ASCII: Final = "".join(map(chr, range(128)))
LEAST_PROBABILITY: Final = 0.01
"""Scores that are less likely do not count, as in DeepEval."""

_GRADED: Final = Scale(0, 10, whole=True)
_STRICT: Final = Scale(
    0, 1, levels={0: "the criteria are not met, or not entirely", 1: "they are met entirely"}, whole=True
)


@dataclass(frozen=True, slots=True)
class EvaluationSteps:
    """What a judge replies that is asked how to check criteria."""

    steps: list[str]

    def check(self) -> None:
        """Raise `ValueError` unless there are steps, not too many, and none is empty."""
        if not 1 <= len(self.steps) <= MOST_STEPS or not all(step.strip() for step in self.steps):
            raise ValueError(f"there should be 1 to {MOST_STEPS} steps, none of them empty")


@dataclass(frozen=True, kw_only=True)
class GEval(JudgedEvaluator):
    """Asks a judge to go through evaluation steps and score from 0 to 10, divided by 10.

    Steps that are not given are written by the judge from the criteria: once per run, without sight of any
    case. Where the judge reports token probabilities, the score is the mean of the scores it considered,
    weighted by them. One call per case, one more per run for the steps. After Liu et al. (2023); the scale
    is DeepEval's.

    Example:
        >>> judge = lambda prompt: '{"reason": "One step is missing.", "score": 7}'
        >>> evaluator = GEval(evaluation_steps=["Check that every step is named."], judge=judge)
        >>> evaluator.evaluate(EvalTestCase.of("How do I brew tea?", "Boil water.")).score
        0.7
    """

    method_source = (
        'Liu et al., "G-Eval: NLG evaluation using GPT-4 with better human alignment" (2023), on the '
        "scale of DeepEval."
    )
    judge_calls = "1 + steps"
    default_name = "G-Eval"
    requires: ClassVar[tuple[str, ...]] = USUAL_PARTS

    criteria: str = ""
    """What makes a good output. Needed unless there are steps."""
    evaluation_steps: Sequence[str] | None = None
    """How to check it, step by step; written by the judge unless given."""
    strict_mode: bool = False
    """Score 1 if the criteria are met entirely, else 0; the threshold is 1."""
    include_reason: bool = True
    """Whether to ask for a reason; without one, replies are shorter and judged less carefully."""
    threshold: float | None = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.evaluation_steps is not None:
            object.__setattr__(self, "evaluation_steps", tuple(self.evaluation_steps))
        if not self.criteria.strip() and not self.evaluation_steps:
            raise ConfigurationError(f"{self.name} needs criteria or evaluation_steps.")
        if self.strict_mode:
            object.__setattr__(self, "threshold", 1.0)

    def default_parts(self) -> tuple[str, ...]:
        return default_parts(self.requires)

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        steps = await self.steps()
        sections = material(case, select_parts(case, self.evaluation_params, self.requires))
        prompt = rating_prompt(self._criteria(steps), sections, self._scale, reasoned=self.include_reason)
        rated = await ask_rating(
            self._grader, prompt, self._scale, reasoned=self.include_reason, sample=sample
        )
        metadata: dict[str, Any] = {**raw_score(rated.number, self._scale), "evaluationSteps": list(steps)}
        weighted = None if self.strict_mode else weigh_by_logprobs(rated, self._scale)
        if weighted is not None:
            metadata["weighted"] = True
        number = rated.number if weighted is None else weighted
        return Score(self._scale.normalize(number), rated.reason, metadata=metadata)

    async def steps(self) -> tuple[str, ...]:
        """Return the evaluation steps, asking the judge for them where none were given."""
        if self.evaluation_steps:
            return tuple(self.evaluation_steps)
        prompt = _steps_prompt(self.criteria, self.evaluation_params or self.requires)
        return await once_per_run(
            ("evaluation steps", identity_of(self.lm), prompt), lambda: _write_steps(self.lm, prompt)
        )

    @cached_property
    def _grader(self) -> JudgeLM:
        # A strict score is 0 or 1: a weighted mean would hardly ever reach the threshold of 1.
        return self.lm if self.strict_mode else with_logprobs(self.lm, TOP_LOGPROBS)

    @property
    def _scale(self) -> Scale:
        return _STRICT if self.strict_mode else _GRADED

    def _criteria(self, steps: Sequence[str]) -> str:
        listed = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
        return f"{self.criteria}\n\nGo through these steps:\n{listed}".strip()


def with_logprobs(judge: JudgeLM, top: int) -> JudgeLM:
    """Return the judge set to report token probabilities, or as it is where it cannot."""
    return judge.with_logprobs(top=top) if isinstance(judge, WithLogprobs) else judge


def weigh_by_logprobs(rated: Rated, scale: Scale) -> float | None:
    """Return the mean of the whole scores a judge considered, weighted by their probability.

    None where there are no probabilities, or the score cannot be found in them.
    """
    tokens = rated.reply.logprobs or ()
    token_index = _find_score_token(tokens, rated)
    if token_index is None:
        return None
    weights = {
        score: probability
        for score, probability in _iter_possible_scores(tokens, token_index)
        if scale.low <= score <= scale.high and probability >= LEAST_PROBABILITY
    }
    return exact_mean([*weights], [*weights.values()]) if any(weights.values()) else None


def _find_score_token(tokens: Sequence[TokenLogprob], rated: Rated) -> int | None:
    """Return the index of the token with which the judge's own score begins: its reply may quote others."""
    member = member_start(rated.reply.text, rated.start, "score") if tokens else None
    if member is None:
        return None
    digit = _find_in_tokens(tokens, rated.reply.text, member + (rated.reply.text[member] in "\"'"))
    if digit is None:
        return None
    position = 0
    for index, token in enumerate(tokens):
        if position <= digit < position + len(token.token):
            starts_number = token.token[: digit - position].strip(" \"':") == ""
            return index if starts_number else None
        position += len(token.token)
    return None


def _find_in_tokens(tokens: Sequence[TokenLogprob], text: str, position: int) -> int | None:
    """Return where a place of a reply is in its tokens, which may have more before it.

    Tokens that are parts of characters are written in another way than the reply, so only the ASCII text
    around the place is looked for.
    """
    written = "".join(token.token for token in tokens)
    before = text[:position]
    before = before[len(before.rstrip(_ASCII)) :]
    fragment = before + text[position : len(text) - len(text[position:].lstrip(_ASCII))]
    # Found twice is as bad as not found: the wrong token would weigh the score.
    return written.index(fragment) + len(before) if written.count(fragment) == 1 else None


def _iter_possible_scores(tokens: Sequence[TokenLogprob], token_index: int) -> Iterator[tuple[int, float]]:
    """Yield the whole scores that could have stood at a place, with their probabilities.

    Some models write 10 as one token, others as 1 and 0. With the latter, an alternative 1 may have been the
    beginning of 10 and says nothing, unless it is what was written.
    """
    number, length = _parse_score(tokens, token_index)
    if number is None:
        return
    chosen = tokens[token_index]
    tops = {text.strip(" \"'"): math.exp(logprob) for text, logprob in chosen.top.items()}
    written = chosen.token.strip(" \"'")
    # The sampled token need not be among the alternatives that are reported.
    tops.setdefault(written, math.exp(chosen.logprob))
    if length == 2:
        ended = math.exp(tokens[token_index + 1].logprob)
        yield number, tops[written] * ended
        yield int(written), tops.pop(written) * (1 - ended)
    for text, probability in tops.items():
        if text.isascii() and text.isdigit() and (text != "1" or written == "1" or "10" in tops):
            yield int(text), probability


def _parse_score(tokens: Sequence[TokenLogprob], token_index: int) -> tuple[int | None, int]:
    """Return the whole number that begins at a place, None for another, and its tokens: one or two."""
    first = tokens[token_index].token.strip(" \"'")
    after = tokens[token_index + 1].token if token_index + 1 < len(tokens) else ""
    if not (first.isascii() and first.isdigit()):
        return None, 0
    if after.isascii() and after.isdigit():
        return int(first + after), 2
    return int(first), 1


async def _write_steps(judge: JudgeLM, prompt: str) -> tuple[str, ...]:
    answer = await ask(judge, prompt, EvaluationSteps, check=EvaluationSteps.check)
    return tuple(" ".join(step.split()) for step in answer.steps)


def _steps_prompt(criteria: str, parts: Sequence[str]) -> str:
    labels = ", ".join(label_of(path) for path in parts)
    return (
        f"An AI system's work will be judged by these criteria:\n{criteria}\n\n"
        f"The judge will see, for each case: {labels}.\n"
        "Write 3 or 4 short steps, one sentence each, that tell the judge what to look at and compare. "
        "Do not judge anything yet."
    )

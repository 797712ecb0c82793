"""`LLMJudge`: judge by criteria in plain language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators._llm.base import JudgedEvaluator
from dokimos.evaluators._llm.case_sections import USUAL_PARTS, default_parts, material, select_parts
from dokimos.evaluators._llm.rating import (
    GradedExample,
    Scale,
    check_ends,
    check_examples,
    check_scale,
    rate,
    rating_prompt,
)
from dokimos.evaluators._setting_checks import check_list, check_mapping, check_text


@dataclass(frozen=True, kw_only=True)
class LLMJudge(JudgedEvaluator):
    """Asks a judge model how well a case meets criteria that you write in plain language.

    The judge is shown the input, the actual output and, where the case has one, the expected output, or the
    parts named by `evaluation_params`, in that order. One call.

    Example:
        >>> judge = lambda prompt: '{"reason": "Friendly and correct.", "score": 0.9}'
        >>> polite = LLMJudge(criteria="The answer is polite.", judge=judge, threshold=0.8)
        >>> polite.evaluate(EvalTestCase.of("Can I return it?", "Of course, within 30 days.")).success
        True
    """

    method_source = 'Zheng et al., "Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena" (2023).'
    default_name = "LLM Judge"
    requires: ClassVar[tuple[str, ...]] = USUAL_PARTS

    criteria: str
    """What makes a good output; say what to look at and what to ignore."""
    score_range: tuple[float, float] = (0.0, 1.0)
    """The scale on which the judge answers; scores and thresholds are in 0..1 whatever it is."""
    rubric: Mapping[float, str] | None = None
    """What scores of that scale stand for, such as {1: "wrong", 3: "partly right", 5: "right"}."""
    examples: tuple[GradedExample, ...] = ()
    """Outputs with the scores that they should get."""
    include_reason: bool = True
    """Whether to ask for a reason; without one, replies are shorter and judged less carefully."""
    threshold: float | None = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text(self, "criteria", self.criteria.strip())
        if self.rubric is not None:
            check_mapping(self, "rubric", self.rubric, "{1: 'wrong', 5: 'right'}")
        check_list(self, "examples", self.examples, "GradedExample(output=..., score=...)")
        object.__setattr__(self, "score_range", check_ends(self.name, self.score_range))
        object.__setattr__(self, "examples", tuple(self.examples))
        check_scale(self.name, self._scale)
        check_examples(self.name, self.examples, self._scale)

    def custom_range(self) -> None:
        """Return None: the judge answers on `score_range`, which is brought to 0..1."""

    def default_parts(self) -> tuple[str, ...]:
        return default_parts(self.requires)

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        sections = material(case, select_parts(case, self.evaluation_params, self.requires))
        prompt = rating_prompt(
            self.criteria, sections, self._scale, examples=self.examples, reasoned=self.include_reason
        )
        return await rate(self.lm, prompt, self._scale, reasoned=self.include_reason, sample=sample)

    @cached_property
    def _scale(self) -> Scale:
        return Scale(*self.score_range, levels=self.rubric or {})

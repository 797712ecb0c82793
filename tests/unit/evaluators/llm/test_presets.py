from __future__ import annotations

import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators._llm import harm_presets, presets
from dokimos.evaluators.registry import BUILT_IN, name_of

QUALITY = (
    presets.Correctness,
    presets.Helpfulness,
    presets.Coherence,
    presets.Conciseness,
    presets.Completeness,
    presets.Tone,
    presets.InstructionFollowing,
    presets.Summarisation,
    presets.Refusal,
)
HARM = (harm_presets.Toxicity, harm_presets.Bias, harm_presets.Misuse, harm_presets.PIILeakage)
CASE = EvalTestCase.of("What is it?", "It is this.", "This.")


def test_every_registered_preset_is_tested():
    registered = {name for name, target in BUILT_IN.items() if "presets:" in target}
    assert {name_of(preset) for preset in (*QUALITY, *HARM)} == registered


@pytest.mark.parametrize("preset", QUALITY)
@pytest.mark.parametrize(("raw", "score", "success"), [(1, 0.0, False), (3, 0.5, True), (5, 1.0, True)])
def test_quality_is_best_at_one(scripted, preset, raw, score, success):
    result = preset(judge=scripted(score={"score": raw, "reason": "So."})).evaluate(CASE)
    assert (result.score, result.success, result.reason) == (score, success, "So.")


@pytest.mark.parametrize("preset", HARM)
@pytest.mark.parametrize(
    ("raw", "score", "success"), [(5, 0.0, True), (4, 0.25, True), (3, 0.5, False), (1, 1.0, False)]
)
def test_harm_is_best_at_zero(scripted, preset, raw, score, success):
    evaluator = preset(judge=scripted(score={"score": raw}))
    result = evaluator.evaluate(CASE)
    assert (str(result.score), result.success) == (str(score), success)  # no -0.0
    assert evaluator.info().lower_is_better
    assert result.metadata == {"rawScore": raw, "scoreRange": [5, 1]}


@pytest.mark.parametrize("preset", [*QUALITY, *HARM])
def test_every_preset_shows_its_levels_in_one_call(scripted, preset):
    judge = scripted(score={"score": 5})
    preset(judge=judge).evaluate(CASE)
    assert judge.asked == ["score"]
    lines = [f"- {score}: {text}" for score, text in enumerate(preset.levels, 1)]
    assert "\n".join(lines) in judge.prompts[0]
    assert len(set(preset.levels)) == 5


@pytest.mark.parametrize("preset", [*QUALITY, *HARM])
@pytest.mark.parametrize("reply", ["excellent", '{"score": 0}', '{"score": 6}', '{"score": true}'])
def test_a_reply_off_the_scale_is_an_error(scripted, preset, reply):
    result = preset(judge=scripted(score=reply)).evaluate(CASE)
    assert result.score is None
    assert "JudgeReplyError" in result.error


@pytest.mark.parametrize(
    ("preset", "options", "shown"),
    [
        (presets.Tone, {"tone": "warm and brief"}, "warm and brief"),
        (harm_presets.Misuse, {"purpose": "a bank's support"}, "a bank's support"),
        (presets.InstructionFollowing, {"instructions": "Answer in verse."}, "Answer in verse."),
        (presets.InstructionFollowing, {}, "The instructions are those in the input."),
    ],
)
def test_parameters_are_part_of_the_question(scripted, preset, options, shown):
    judge = scripted(score={"score": 5})
    preset(judge=judge, **options).evaluate(CASE)
    assert shown in judge.prompts[0]


def test_correctness_needs_an_expected_output(scripted):
    result = presets.Correctness(judge=scripted()).evaluate(EvalTestCase.of("Q", "A"))
    assert "requires an expected output" in result.error


def test_tone_needs_no_input(scripted):
    case = EvalTestCase(actual_outputs={"output": "Good day."})
    assert presets.Tone(judge=scripted(score={"score": 5})).evaluate(case).score == 1


@pytest.mark.parametrize("preset", [*QUALITY, *HARM])
def test_an_expected_output_is_shown_only_where_it_matters(scripted, preset):
    judge = scripted(score={"score": 5})
    preset(judge=judge).evaluate(EvalTestCase.of("Q", "A", "E-1"))
    shown = preset in (presets.Correctness, presets.Completeness, presets.Refusal)
    assert ("E-1" in judge.prompts[0]) is shown


def test_an_empty_tone_is_refused(scripted):
    with pytest.raises(ConfigurationError, match="tone must be"):
        presets.Tone(judge=scripted(), tone="")

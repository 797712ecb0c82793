"""Trying to talk judges into passing wrong answers."""

import asyncio
import json
import re
from collections import Counter
from dataclasses import dataclass

import pytest

from dokimos._cli.main import run_command
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError, JudgeUnavailableError
from dokimos.evaluators._llm.base import JudgedEvaluator
from dokimos.judges._ask import ask
from dokimos.judges._attack.corpus import corpus, spread
from dokimos.judges._attack.report import AttackResult
from dokimos.judges._attack.runner import Attacking, attack, attack_async
from dokimos.judges._fencing import fence, fence_rule

FAIL, PASS = '{"score": 0}', '{"score": 1}'


@dataclass
class Verdict:
    score: float


@dataclass(frozen=True, kw_only=True)
class Correctness(JudgedEvaluator):
    """The least that an evaluator can be that fences what it judges."""

    threshold: float | None = 0.5

    async def judge_case(self, case, *, sample):
        parts = ("Is the output right?", fence_rule(), fence("Output", case.actual_output))
        verdict = await ask(self.lm, "\n".join(parts), Verdict, sample=sample)
        return Score(verdict.score, "")


def obeys_anything(prompt):
    """Passes as soon as there is more than the wrong answer: the most gullible judge there is."""
    alone = any(a.question.wrong in prompt and _answer_in(prompt) == a.question.wrong for a in corpus())
    return FAIL if alone else PASS


def obeys_outside_of_fences(prompt):
    """Follows orders, but knows what a fence is."""
    return FAIL if 'name="Output">' in prompt else obeys_anything(prompt)


def ignores_text(prompt):
    return FAIL


def _answer_in(prompt):
    plain = re.search(r'Output:\n"""\n(.*)\n"""\n\nReply', prompt, re.DOTALL)
    marked = re.search(r'<material \w+ name="Output">\n\| (.*)\n</material', prompt, re.DOTALL)
    return (plain or marked)[1]


def test_there_are_enough_attacks_of_every_kind():
    kinds = Counter(a.category for a in corpus())

    assert len(corpus()) >= 60
    assert len(kinds) >= 12
    assert min(kinds.values()) >= 5
    assert len({a.id for a in corpus()}) == len({a.text for a in corpus()}) == len(corpus())


def test_every_attack_holds_a_wrong_answer():
    for one in corpus():
        assert one.question.wrong in one.output
        assert len(one.output) > len(one.question.wrong)
        assert one.question.right not in one.output
        assert one.question.expected.lower() not in one.question.wrong.lower()


def test_a_case_has_what_judged_evaluators_look_for():
    case = corpus()[0].case()

    assert (case.input, case.expected_output) == ("What is the capital of Australia?", "Canberra")
    assert case.contexts == ("Canberra is the capital of Australia.",)
    assert case.actual_outputs["contexts"] == ["Canberra is the capital of Australia."]


def test_a_judge_that_obeys_flips_every_time():
    arm = attack(Correctness(judge=obeys_anything), defences=[False]).arm(defended=False)

    assert arm.total.rate == 1.0
    assert arm.total.judged == len(corpus())


def test_a_judge_that_ignores_the_text_never_flips():
    report = attack(Correctness(judge=ignores_text))

    assert [arm.total.rate for arm in report.arms] == [0.0, 0.0]
    assert report.reduction is None


def test_a_judge_that_respects_fences_is_saved_by_them():
    report = attack(Correctness(judge=obeys_outside_of_fences))

    assert report.arm(defended=True).total.rate == 0.0
    assert report.arm(defended=False).total.rate == 1.0
    assert report.reduction == 1.0


def test_right_answers_are_judged_too():
    def knows_the_right_ones(prompt):
        return PASS if any(a.question.right in prompt for a in corpus()[:11]) else FAIL

    report = attack(Correctness(judge=knows_the_right_ones), defences=[True])

    assert (report.arms[0].right.judged, report.arms[0].right.passed) == (12, 11)
    assert "11 of 12 right answers pass." in report.to_markdown()
    assert report.to_dict()["arms"][0]["rightPassed"] == 11


def test_without_defences_the_text_stands_as_it_is():
    prompts = []
    chosen = [one for one in corpus() if one.category == "hidden-unicode"]

    attack(Correctness(judge=lambda prompt: prompts.append(prompt) or FAIL), attacks=chosen)

    bare = [prompt for prompt in prompts if '"""' in prompt]
    guarded = [prompt for prompt in prompts if "<material" in prompt]
    assert len(bare) == len(guarded)
    assert any("\U000e0049" in prompt for prompt in bare)
    assert not any("\U000e0049" in prompt for prompt in guarded)
    assert any("hidden characters]" in prompt for prompt in guarded)


def test_defences_are_back_after_an_attack():
    attack(Correctness(judge=ignores_text), attacks=corpus()[:1], defences=[False])

    assert fence("Output", "text").startswith("<material")


def test_errors_are_no_flips():
    def breaks(prompt):
        if "highest score" in prompt:
            raise JudgeUnavailableError("overloaded")
        return FAIL

    total = attack(Correctness(judge=breaks), attacks=corpus()[:7], defences=[True]).arms[0].total

    assert (total.judged, total.passed, total.errors) == (6, 0, 1)


def test_an_answer_that_passes_honestly_is_not_attacked():
    def loves_sydney(prompt):
        return PASS if "Sydney" in prompt else FAIL

    arm = attack(Correctness(judge=loves_sydney), defences=[True]).arms[0]

    of_sydney = [one for one in corpus() if one.question.id == "australia"]
    assert arm.honest_other == (("australia", "passed with 1.0"),)
    assert arm.excluded == len(of_sydney)
    assert {r.id for r in arm.results}.isdisjoint(one.id for one in of_sydney)


@pytest.mark.parametrize(
    ("evaluator", "told"),
    [
        (Correctness(judge=lambda prompt: PASS), r"'australia'\): passed with 1.0"),
        (Correctness(judge=lambda prompt: FAIL, threshold=None), "no threshold"),
        (Correctness(judge=lambda prompt: "hm"), r"error: JudgeReplyError"),
    ],
)
def test_nothing_to_flip_is_an_error(evaluator, told):
    with pytest.raises(ConfigurationError, match=told):
        attack(evaluator, attacks=corpus()[:3])


async def test_several_cases_are_judged_at_once_and_progress_is_told():
    seen, most, waiting = [], 0, 0

    async def judge(prompt):
        nonlocal most, waiting
        waiting += 1
        most = max(most, waiting)
        await asyncio.sleep(0.001)
        waiting -= 1
        return FAIL

    await attack_async(
        Correctness(judge=judge),
        attacks=corpus()[:10],
        defences=[True],
        parallelism=3,
        progress=lambda done, total: seen.append((done, total)),
    )

    assert most == 3
    assert seen[-1] == (30, 30)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


async def test_an_attack_tells_at_any_time_what_it_found():
    made = []

    def judge(prompt):
        made.append(attacking.report().made)
        return obeys_anything(prompt)

    attacking = Attacking(Correctness(judge=judge), attacks=corpus()[:5], parallelism=1)
    before = attacking.report()
    report = await attacking.run()

    questions = len({one.question.id for one in corpus()[:5]})
    assert (before.made, before.arms, before.complete) == (0, (), False)
    assert made == list(range(2 * (2 * questions + 5)))
    assert (report.complete, report.made) == (True, len(made))
    assert attacking.report() == report


def test_a_report_of_a_part_says_so():
    class Enough(Exception):
        pass

    def stop(done, total):
        if done == 9:
            raise Enough

    attacking = Attacking(
        Correctness(judge=obeys_anything), attacks=corpus()[:14], parallelism=1, progress=stop
    )
    with pytest.raises(Enough):
        asyncio.run(attacking.run())
    report = attacking.report()

    assert report.to_markdown().startswith("# Attacks on Correctness\n\nInterrupted: 9 of ")
    assert [arm.defended for arm in report.arms] == [True]
    assert report.to_dict()["complete"] is False
    assert report.reduction is None


def test_an_attack_goes_on_with_the_replies_in_its_file(tmp_path):
    asked = []

    def judge(prompt):
        asked.append(prompt)
        return ignores_text(prompt)

    path = tmp_path / "calls.jsonl"
    first = attack(Correctness(judge=judge), attacks=corpus()[:4], calls=path)
    once = len(asked)
    second = attack(Correctness(judge=judge), attacks=corpus()[:5], calls=path)

    assert first.made == once
    assert len(asked) - once <= 2 * 3  # the fifth attack, and its question where that is a new one
    assert second.arms[0].results[:4] == first.arms[0].results


def test_an_attack_without_any_reply_leaves_no_file(tmp_path):
    def down(prompt):
        raise JudgeUnavailableError("down")

    with pytest.raises(ConfigurationError, match="down"):
        attack(Correctness(judge=down), attacks=corpus()[:2], calls=tmp_path / "calls.jsonl")

    assert list(tmp_path.iterdir()) == []


def test_one_way_with_nothing_to_flip_does_not_lose_the_other():
    def fails_only_in_fences(prompt):
        return FAIL if "<material" in prompt else PASS

    report = attack(Correctness(judge=fails_only_in_fences), attacks=corpus()[:4])

    assert report.arm(defended=True).total.judged == 4
    assert (report.arm(defended=False).total.judged, report.arm(defended=False).excluded) == (0, 4)
    assert report.arm(defended=False).right.judged == 0
    assert report.complete
    assert "4 attacks were left out" in report.to_markdown()


def test_a_sample_takes_from_every_category():
    chosen = spread(corpus(), 24)

    assert len(chosen) == 24
    assert set(Counter(a.category for a in chosen).values()) == {2}
    assert spread(corpus(), 1_000) == corpus()


def test_the_reduction_compares_attacks_that_both_sides_judged():
    report = attack(Correctness(judge=obeys_outside_of_fences), attacks=corpus()[:4])
    lost = AttackResult(id=corpus()[0].id, category="x", has_flipped=None, score=None, reason="", error="cut")
    guarded, bare = report.arms
    object.__setattr__(guarded, "results", (lost, *guarded.results[1:]))

    assert report.reduction == 1.0
    assert guarded.total.judged == 3
    assert bare.total.judged == 4


def test_the_report_shows_rates_by_category():
    text = attack(Correctness(judge=obeys_outside_of_fences)).to_markdown()

    assert text.startswith("# Attacks on Correctness\n\n| Category | with defences | without defences |")
    assert "| role-play | 0.0 % (0/6) | 100.0 % (6/6) |" in text
    assert f"| **all** | **0.0 % (0/{len(corpus())})** |" in text
    assert "The defences prevent 100.0 % of the flips." in text


def test_the_report_is_data_too():
    data = attack(Correctness(judge=obeys_outside_of_fences), attacks=corpus()[:7]).to_dict()

    assert json.loads(json.dumps(data)) == data
    assert [(arm["defended"], arm["flipRate"], arm["flipped"]) for arm in data["arms"]] == [
        (True, 0.0, 0),
        (False, 1.0, 7),
    ]
    assert data["arms"][1]["results"][0]["id"] == "direct-order-1"


def test_a_fence_cannot_be_closed_from_inside():
    for one in corpus():
        first, *inside, last = fence("Output", one.output).split("\n")
        assert first.startswith("<material")
        assert last.startswith("</material")
        assert not re.search(r"<\s*/?\s*material|<\||\[/?INST|</?s>", "\n".join(inside), re.IGNORECASE)
        assert "".join(inside).isprintable() or "\t" in "".join(inside)


def test_a_case_of_ones_own_question_works():
    case = corpus()[0].question.honest_case()

    assert isinstance(case, EvalTestCase)
    assert case.actual_output == "The capital is Sydney."


@pytest.fixture
def judges(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "judges.py").write_text(
        "def strict(prompt):\n"
        '    return \'{"reason": "It is wrong.", "score": 0}\'\n'
        "def gullible(prompt):\n"
        "    score = int('score 1' in prompt and '<material' not in prompt)\n"
        '    return \'{"reason": "", "score": %d}\' % score\n'
    )
    return tmp_path


def test_the_command_reports_both_ways(judges, capsys):
    status = run_command(
        ["judge", "attack", "judges.py:gullible", "-n", "12", "-o", "attack.json", "-o", "attack.md"]
    )

    out = capsys.readouterr().out
    assert status == 0, out
    assert "| Category | with defences | without defences |" in out
    assert (judges / "attack.md").read_text(encoding="utf-8") == out
    data = json.loads((judges / "attack.json").read_text(encoding="utf-8"))
    assert data["arms"][0]["flipped"] == 0
    assert data["arms"][1]["flipped"] > 0


def test_the_command_can_leave_the_defences_off(judges, capsys):
    assert run_command(["judge", "attack", "judges.py:strict", "--no-defence", "-n", "12"]) == 0

    assert "| Category | without defences |" in capsys.readouterr().out


def test_the_command_takes_another_evaluator(judges, capsys):
    spec = "llm_judge:criteria=It is right,name=My judge"

    assert run_command(["judge", "attack", "judges.py:strict", "-e", spec, "-n", "12"]) == 0

    assert capsys.readouterr().out.startswith("# Attacks on My judge\n")


def test_the_command_says_how_far_it_is(judges, capsys, monkeypatch):
    monkeypatch.setattr("dokimos._cli.judge.PLAIN_SECONDS", 0.0)

    assert run_command(["judge", "attack", "judges.py:strict", "-n", "2", "--defence", "-j", "1"]) == 0

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == int(lines[-1].split()[2])
    assert re.fullmatch(r"1 of \d+ verdicts, about [\d.]+ \w+ left", lines[0])
    assert re.fullmatch(r"(\d+) of \1 verdicts", lines[-1])


def test_the_command_leaves_only_its_reports(judges):
    command = ["judge", "attack", "judges.py:strict", "-n", "2", "-o", "out/attack.json"]

    assert run_command(command) == 0
    assert [path.name for path in (judges / "out").iterdir()] == ["attack.json"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["judges.py:strict", "-e", "regex:pattern=x"], "there is no such parameter"),
        (["judges.py:nobody"], "judges has no 'nobody'"),
        (["nowhere.py:judge"], "There is no file nowhere.py"),
        (["judges.py:strict", "-o", "attack.html"], ".json or .md"),
    ],
)
def test_the_command_says_what_is_wrong(judges, capsys, arguments, message):
    assert run_command(["judge", "attack", *arguments]) == 2

    assert message in capsys.readouterr().err

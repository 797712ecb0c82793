"""Code graders: what they see, what they may return, where they are found."""

import sys

import pytest

from dokimos.suites._python_references import load_callable

CASE = "{input: q, ground_truth: g, turn_config: {want: 3}, name: a case}"


def graded(folder, body, *, metric="", case=CASE, agent="app:with_tools"):
    folder.write("graders/own.py", body)
    item = folder.item(
        f"agent: {agent}\nevaluations:\n  metrics: [{{type: code, grader: 'graders.own:grade'{metric}}}]\n"
        f"test_cases: [{case}]\n"
    )
    results = item.eval_results
    return results[0] if len(results) == 1 else {result.key: result for result in results}


@pytest.fixture(autouse=True)
def _forget_modules():
    yield
    for name in [name for name in sys.modules if name.split(".")[0] in ("graders", "holodeck")]:
        del sys.modules[name]


def test_a_grader_sees_the_whole_turn(folder):
    result = graded(
        folder,
        """
        from dokimos.suites._graders import GraderResult

        def grade(ctx):
            call = ctx.tool_invocations[0]
            seen = [ctx.turn_input, ctx.agent_response, ctx.ground_truth, ctx.turn_index, ctx.test_case_name]
            seen += [ctx.turn_config, list(ctx.retrieval_context), call.name, call.args["a"]]
            return GraderResult(score=0.25, passed=True, reason="seen", details={"seen": seen})
        """,
    )

    assert (result.score, result.success, result.reason) == (0.25, True, "seen")
    assert result.metadata["details"]["seen"] == [
        "q", "q", "g", 0, "a case", {"want": 3}, ["It is in France."], "mcp__sums__subtract", 60.94
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("returned", "metric", "score", "success"),
    [
        ("True", "", 1.0, True),
        ("False", ", threshold: 0", 0.0, False),
        ("0.5", "", 0.5, True),
        ("0.4", "", 0.4, False),
        ("0.4", ", threshold: 0.3", 0.4, True),
        ("1", "", 1.0, True),
        ("numpy.float32(0.75)", "", 0.75, True),
        ("numpy.bool_(False)", ", threshold: 0", 0.0, False),
        ("Decimal('0.25')", "", 0.25, False),
        ("Score(0.25, 'why')", ", threshold: 0.2", 0.25, True),
        ("GraderResult(numpy.float32(0.25), passed=numpy.bool_(True))", "", 0.25, True),
    ],
)
def test_a_grader_may_return_a_shortcut(folder, returned, metric, score, success):
    head = "import numpy\nfrom decimal import Decimal\nfrom dokimos import Score\n"
    head += "from dokimos.suites._graders import GraderResult\n"
    result = graded(folder, f"{head}\ndef grade(ctx):\n    return {returned}\n", metric=metric)

    assert (result.score, result.success) == (score, success)
    assert (type(result.score), type(result.success)) == (float, bool)


SEVERAL = """
from dokimos.suites._graders import GraderResult

def grade(ctx):
    return {
        "grounded": GraderResult(0.7, reason="two claims", details={"claims": 2}),
        "polite": True,
        "short": 0.4,
        "cites": None,
    }
"""


def test_a_grader_may_give_several_scores_each_with_its_threshold(folder):
    result = graded(folder, SEVERAL, metric=", name: Triad, thresholds: {grounded: 0.8, cites: 0.5}")

    found = {part.name: (part.score, part.success, part.threshold) for part in result.values()}
    assert found == {
        "Triad.grounded": (0.7, False, 0.8),
        "Triad.polite": (1.0, True, None),
        "Triad.short": (0.4, False, None),
        "Triad.cites": (None, None, 0.5),
    }
    grounded = result["grounded"]
    assert (grounded.reason, grounded.metadata) == ("two claims", {"details": {"claims": 2}})


def test_several_scores_of_a_grader_are_averaged_over_the_turns(folder):
    folder.write("graders/own.py", "def grade(ctx):\n    return {'turn': ctx.turn_index / 2, 'fine': True}\n")
    item = folder.item(
        "agent: app:echo\nevaluations:\n  metrics: [{type: code, grader: 'graders.own:grade', name: Pair}]\n"
        "test_cases: [{turns: [{input: a}, {input: b}, {input: c}]}]\n"
    )

    results = {result.name: (result.score, result.success) for result in item.eval_results if result.key}
    assert results == {"Pair.turn": (0.5, False), "Pair.fine": (1.0, True)}


def test_one_wrong_score_of_several_is_an_error_of_its_own(folder):
    result = graded(folder, "def grade(ctx):\n    return {'good': True, 'bad': 'yes'}\n")

    assert result["good"].success is True
    assert "must return a GraderResult, a Score, a bool or a number" in result["bad"].error


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("return None", "a bool or a number, or a mapping of keys to these, not NoneType"),
        ("return {}", "returned an empty mapping"),
        ("return {'pass': True, 'score': 1, 'reason': 'fine'}", "a mapping of one score and texts"),
        ("return GraderResult(1.0, passed='no')", "gave passed='no'; it must be True, False or None"),
        ("return GraderResult('1')", "must return a Score, a number or a bool"),
        ("return GraderResult(1.0, reason=5)", "gave a reason that is int, not text"),
        ("return 'good'", "not str"),
        ("return 1.7", "1.7, which is not in 0..1"),
        ("return float('nan')", "not in 0..1"),
        ("raise KeyError('x')", "KeyError: 'x'"),
        ("return GraderResult(score=1, details={'a': object()})", "details that are not JSON"),
    ],
)
def test_a_grader_that_fails_gives_an_error_and_never_a_score(folder, body, error):
    head = "from dokimos.suites._graders import GraderResult\n"
    result = graded(folder, f"{head}\ndef grade(ctx):\n    {body}\n")

    assert (result.score, result.success) == (None, None)
    assert error in result.error


def test_a_grader_may_be_async(folder):
    assert graded(folder, "async def grade(ctx):\n    return ctx.agent_response == 'q'\n").success is True


def test_a_grader_written_for_holodeck_runs_unchanged(folder):
    result = graded(
        folder,
        """
        from holodeck.lib.test_runner.code_grader import GraderContext, GraderResult

        def grade(ctx: GraderContext) -> GraderResult | bool | float:
            return GraderResult(score=1.0, passed=True, reason=str(ctx.turn_config.get("want")))
        """,
    )

    assert result.reason == "3"


def test_the_context_cannot_be_changed(folder):
    result = graded(folder, "def grade(ctx):\n    ctx.turn_input = 'x'\n")

    assert "FrozenInstanceError" in result.error


def test_the_search_path_is_as_before(folder):
    before = list(sys.path)
    graded(folder, "def grade(ctx):\n    return True\n")

    assert sys.path == before


def test_two_suites_may_have_graders_of_one_name(folder, tmp_path):
    found = []
    for name in ("one", "two"):
        place = tmp_path / name / "graders"
        place.mkdir(parents=True)
        (place / "own.py").write_text(
            f"from graders.names import NAME\ndef grade(ctx):\n    return NAME + '{name}'\n"
        )
        (place / "names.py").write_text("NAME = 'I am '\n")
        found.append(load_callable("graders.own:grade", tmp_path / name))

    assert [grade(None) for grade in found] == ["I am one", "I am two"]


def test_a_grader_is_looked_up_in_the_working_directory_too(folder, tmp_path):
    (tmp_path / "work" / "elsewhere_graders.py").write_text("def grade(ctx):\n    return True\n")

    assert load_callable("elsewhere_graders:grade", folder.path)(None) is True


def test_a_grader_that_changes_what_it_sees_changes_it_for_itself_only(folder):
    folder.write(
        "graders/own.py",
        """
        from dokimos.suites._graders import GraderResult

        KEPT = {"seen": []}

        def change(ctx):
            KEPT["seen"].append(dict(ctx.turn_config, want=list(ctx.turn_config["want"])))
            ctx.turn_config["want"].append("changed")
            ctx.tool_invocations[0].args["a"] = "changed"
            return GraderResult(1.0, details=KEPT)

        def look(ctx):
            unchanged = ctx.turn_config == {"want": [3]} and ctx.tool_invocations[0].args["a"] == 60.94
            return GraderResult(float(unchanged))
        """,
    )
    result = folder.run(
        "agent: app:with_tools\nevaluations:\n  metrics:\n"
        "  - {type: code, grader: 'graders.own:change'}\n  - {type: code, grader: 'graders.own:look'}\n"
        "test_cases: [{input: q, turn_config: {want: [3]}, repeats: 2}]\n"
    )
    for number, item in enumerate(result.item_results, 1):
        assert item.result("look").score == 1.0
        assert item.result("change").metadata["details"] == {"seen": [{"want": [3]}] * number}


def test_another_kind_of_result_is_refused_with_the_line_to_write(folder):
    given = "EvalResult.of('mine', 0.8, 0.5, 'good')"
    result = graded(folder, f"from dokimos import EvalResult\n\ndef grade(ctx):\n    return {given}\n")
    assert "write: return GraderResult(0.8, reason='good')" in result.error

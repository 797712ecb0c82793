"""The pytest plugin, in sessions of its own."""

from __future__ import annotations

import json
import os
import textwrap

import pytest

import dokimos
import dokimos.errors
import dokimos.evaluators
import dokimos.testing
from dokimos import ExperimentResult, load_result

# Loaded before the first session: pytester forgets the modules that a session was the first to import, and a
# second class of that name would not be the one that the assertions, and other tests, know.
for package in (dokimos, dokimos.errors, dokimos.evaluators, dokimos.testing):
    for name in package.__all__:
        getattr(package, name)

pytest_plugins = ["pytester"]

# Without plugins that these sessions do not need: each of the sessions would import them anew, for a second.
INI = """
[pytest]
addopts = --strict-markers -p no:cacheprovider -p no:schemathesis -p no:hypothesispytest -p no:cov
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
"""
ROWS = """
{"id": "refund", "input": "How long can I return goods?", "expectedOutput": "30 days"}
{"input": "Do I need a receipt?", "expectedOutput": "yes"}
"""
SUPPORT = """
import pytest
from dokimos.evaluators import ExactMatch
from dokimos.testing import assert_eval

@pytest.mark.dokimos("support.jsonl")
def test_support(example):
    assert_eval(example.to_test_case("30 days"), ExactMatch())
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makefile(".jsonl", support=ROWS)
    pytester.makeini(INI)
    return pytester


def written(project: pytest.Pytester, name: str = "out.json") -> ExperimentResult:
    return load_result(project.path / name)


def test_a_test_runs_once_for_each_example_under_readable_ids(project):
    project.makepyfile(SUPPORT)
    run = project.runpytest("-v")
    run.assert_outcomes(passed=1, failed=1)
    run.stdout.fnmatch_lines(["*test_support?refund? PASSED*", "*test_support?do-i-need-a-receipt? FAILED*"])
    run.stdout.fnmatch_lines(["*Evaluation 'Exact Match' failed: score=0.00 (threshold=1.00)"])


def test_the_short_summary_says_which_score_fell_short(project):
    project.makepyfile(test_it=SUPPORT)
    lines = project.runpytest().stdout.lines
    assert any(line.startswith("FAILED test_it.py") and "] - Exact Match" in line for line in lines)


def test_the_failure_shows_the_test_and_not_our_code(project):
    project.makepyfile(SUPPORT)
    run = project.runpytest()
    assert "assertions.py" not in run.stdout.str()


def test_examples_are_chosen_by_k(project):
    project.makepyfile(SUPPORT)
    project.runpytest("-k", "refund").assert_outcomes(passed=1, deselected=1)


def test_last_failed_runs_the_failed_example_again(project):
    project.makepyfile(SUPPORT)
    project.makeini(INI.replace("-p no:cacheprovider", ""))
    project.runpytest().assert_outcomes(passed=1, failed=1)
    project.runpytest("--lf").assert_outcomes(failed=1)


@pytest.mark.parametrize("arguments", [(), ("-n", "2")])
def test_the_whole_session_becomes_one_result(project, arguments):
    project.makepyfile(
        SUPPORT
        + """
@pytest.mark.dokimos(jsonl='{"input": "a"}', runs=2)
async def test_recorded(example, dokimos_recorder):
    dokimos_recorder.actual_output("b")

def test_unrelated():
    pass
"""
    )
    run = project.runpytest("--dokimos-report=out.json", "--dokimos-report=out.html", *arguments)
    run.stdout.fnmatch_lines(["4 cases | 50.0 % passed | Exact Match 0.500", "report  out.json"])
    result = written(project)
    items = {item.example.id.partition("::")[2]: item for item in result.runs[0].item_results}
    assert list(items) == ["test_recorded[a]", "test_support[refund]", "test_support[do-i-need-a-receipt]"]
    assert [item.index for item in items.values()] == [0, 1, 2]
    assert items["test_recorded[a]"].actual_output == "b"
    assert items["test_support[refund]"].success is True
    assert [item.index for item in result.runs[1].item_results] == [0]
    assert result.evaluators[0].name == "Exact Match"
    assert "test_support" in (project.path / "out.html").read_text()


AGAIN = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports):
        for report in reports:
            report.outcome = "rerun" if report.failed else report.outcome
            item.ihook.pytest_runtest_logreport(report=report)
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True
"""


@pytest.mark.parametrize("arguments", [(), ("-n", "1")])
def test_of_a_flaky_test_that_is_run_again_the_last_attempt_counts(project, arguments):
    project.makeconftest(AGAIN)
    project.makepyfile(
        """
        import pytest
        from dokimos.evaluators import ExactMatch
        from dokimos.testing import assert_eval

        attempts = []

        @pytest.fixture
        def torn_down():
            yield
            assert len(attempts) != 2

        @pytest.mark.dokimos(jsonl='{"id": "a", "input": "?", "expectedOutput": "yes"}')
        def test_answers(example):
            attempts.append("answer")
            assert_eval(example.to_test_case("yes" if attempts[1:] else "no"), ExactMatch())

        def test_crashes(dokimos_recorder):
            dokimos_recorder.actual_output(len(attempts), f"attempt {len(attempts)}")
            attempts.append("crash")
            assert len(attempts) > 3

        def test_tears_down(dokimos_recorder, torn_down):
            attempts[:] = ["x", "x"] if len(attempts) == 4 else ["x"]
            dokimos_recorder.actual_output(len(attempts))
        """
    )

    project.runpytest("--dokimos-report=out.json", *arguments).assert_outcomes(passed=4)

    items = {item.key.partition("::")[2]: item for item in written(project).item_results}
    assert len(written(project).item_results) == 3
    assert (items["test_answers[a]"].success, items["test_answers[a]"].actual_output) == (True, "yes")
    assert (items["test_crashes"].error, items["test_crashes"].actual_outputs) == (None, {"attempt 3": 3})
    assert items["test_tears_down"].actual_outputs == {"output": 1}


@pytest.mark.parametrize("arguments", [(), ("-n", "1")])
def test_a_test_with_subtests_is_one_item_that_shows_the_first_one_that_failed(project, arguments):
    project.makepyfile(
        """
        import unittest
        from dokimos import EvalTestCase
        from dokimos.evaluators import ExactMatch
        from dokimos.testing import assert_eval

        def check(answer):
            assert_eval(EvalTestCase.of(f"say {answer}", answer, "yes"), ExactMatch())

        class TestAnswers(unittest.TestCase):
            def test_fails(self):
                for answer in ("yes", "no", "never", "yes"):
                    with self.subTest(answer=answer):
                        check(answer)

            def test_crashes(self):
                for answer in ("crash", "yes"):
                    with self.subTest(answer=answer):
                        assert answer != "crash", "it crashed"
                        check(answer)

            def test_passes(self):
                for answer in ("yes", "yes"):
                    with self.subTest(answer=answer):
                        check(answer)
        """
    )

    project.runpytest_subprocess("--dokimos-report=out.json", *arguments)

    items = {item.key.rpartition("::")[2]: item for item in written(project).item_results}
    assert len(written(project).item_results) == 3
    assert (items["test_fails"].success, items["test_fails"].actual_output) == (False, "no")
    assert items["test_fails"].example.input == "say no"
    assert "it crashed" in items["test_crashes"].error
    assert items["test_passes"].success


def test_a_test_that_fails_by_itself_is_an_errored_item_and_a_skipped_one_is_none(project):
    project.makepyfile(
        """
        import pytest

        @pytest.mark.dokimos(jsonl='{"input": "a"}\\n{"input": "b"}')
        def test_it(example):
            if example.input == "a":
                pytest.skip("not today")
            assert example.input == "c"
        """
    )
    project.runpytest("--dokimos-report=out.json")
    (item,) = written(project).item_results
    assert (item.example.input, item.success) == ("b", False)
    assert item.error is not None
    assert item.error.startswith("AssertionError: assert 'b' == 'c'")


REPORTER = """
import json, pathlib, pytest
from dokimos import BaseReporter, RunHandle

class Log(BaseReporter):
    def write(self, *entry):
        with open(pathlib.Path(__file__).with_name("log.jsonl"), "a") as file:
            file.write(json.dumps(entry) + chr(10))
    def start_run(self, name, metadata):
        self.write("start", name, dict(metadata))
        return RunHandle(name)
    def report_item(self, handle, item):
        self.write("item", item.index, item.actual_output, item.example.id)
    def complete_run(self, handle, status):
        self.write("complete", status)

log = Log()

@pytest.mark.dokimos("support.jsonl", metadata={"model": "m"}, reporter=log)
def test_support(example, dokimos_recorder):
    if example.id == "refund":
        dokimos_recorder.actual_output("30 days")
"""


@pytest.mark.parametrize("arguments", [(), ("-n", "2")])
def test_a_reporter_gets_one_run_for_the_test_function(project, arguments):
    path = project.makepyfile(REPORTER)
    project.runpytest_subprocess(*arguments).assert_outcomes(passed=2)
    log = [json.loads(line) for line in path.with_name("log.jsonl").read_text().splitlines()]
    assert log[0] == ["start", f"{path.name}::test_support", {"model": "m"}]
    assert sorted(log[1:3], key=str) == [["item", 0, "30 days", "refund"], ["item", 1, None, None]]
    assert log[3:] == [["complete", "SUCCESS"]]


RUN_REPORTER = """
import json, pathlib, pytest
from dokimos import BaseReporter, RunHandle
from dokimos.evaluators import ExactMatch
from dokimos.testing import assert_eval

class Log(BaseReporter):
    def write(self, *entry):
        with open(pathlib.Path(__file__).with_name("log.jsonl"), "a") as file:
            file.write(json.dumps(entry) + chr(10))
    def begin(self, start):
        self.write("begin", start.name, start.planned_items, start.provenance.dokimos_version is not None)
        return RunHandle("run", server_run_id="server-1")
    def report_item(self, handle, item):
        self.write("item", item.index, item.repeat_index, item.was_reported)
    def end(self, handle, end):
        names = [info.name for info in end.evaluators]
        self.write("end", end.outcome, end.summary.total, end.summary.passed, names)

log = Log()

@pytest.mark.parametrize("tone", ["short", "long"])
@pytest.mark.dokimos("support.jsonl", runs=2, reporter=log)
def test_support(example, tone):
    assert_eval(example.to_test_case(example.expected_output if tone == "short" else "?"), ExactMatch())
"""


@pytest.mark.parametrize("arguments", [(), ("-n", "2")])
def test_a_reporter_learns_how_the_run_of_a_test_function_began_and_ended(project, arguments, monkeypatch):
    path = project.makepyfile(RUN_REPORTER)
    monkeypatch.setenv("GITHUB_OUTPUT", str(path.with_name("output")))
    project.runpytest_subprocess(*arguments).assert_outcomes(passed=4, failed=4)
    log = [json.loads(line) for line in path.with_name("log.jsonl").read_text().splitlines()]
    assert log[0] == ["begin", f"{path.name}::test_support", None, True]
    items = [tuple(entry[1:3]) for entry in log[1:-1]]
    # Each case has a place of its own in each repeat, also where two are of one example.
    assert sorted(items) == [(place, repeat) for place in range(4) for repeat in range(2)]
    assert log[-1] == ["end", "finished", 8, 4, ["Exact Match"]]
    assert path.with_name("output").read_text() == "server_run_ids=server-1\n"


@pytest.mark.parametrize("arguments", [(), ("-n", "2")])
@pytest.mark.parametrize(
    "marked", ["pytestmark = MARK\n", "pytestmark = [pytest.mark.filterwarnings('error'), MARK]\n"]
)
def test_a_reporter_is_found_where_a_whole_module_is_marked(project, arguments, marked):
    marker = 'pytest.mark.dokimos("support.jsonl", metadata={"model": "m"}, reporter=log)'
    path = project.makepyfile(REPORTER.replace(f"@{marker}", marked.replace("MARK", marker)))
    project.runpytest_subprocess(*arguments).assert_outcomes(passed=2)
    log = [json.loads(line) for line in path.with_name("log.jsonl").read_text().splitlines()]
    assert [entry[0] for entry in log] == ["start", "item", "item", "complete"]


def test_anyio_runs_nested_classes_and_parametrised_tests(project):
    project.makeini(INI.replace("asyncio_mode = auto", "asyncio_mode = strict"))
    project.makepyfile(
        """
        import pytest
        from dokimos.evaluators import ExactMatch
        from dokimos.testing import assert_eval

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.dokimos("support.jsonl", runs=2)
        class TestOuter:
            class TestInner:
                @pytest.mark.anyio
                @pytest.mark.parametrize("tone", ["plain", "polite"])
                async def test_it(self, example, tone):
                    assert_eval(example.to_test_case(example.expected_output), ExactMatch())
        """
    )
    project.runpytest("--dokimos-report", "out.json").assert_outcomes(passed=8)
    first, second = (run.item_results for run in written(project).runs)
    assert len(first) == 4
    assert [item.key for item in first] == [item.key for item in second]


def test_a_group_of_xdist_is_no_part_of_a_name(project):
    path = project.makepyfile(
        """
        import pytest
        from dokimos import Example
        from dokimos.evaluators import ExactMatch
        from dokimos.testing import assert_eval

        @pytest.mark.xdist_group("one")
        @pytest.mark.dokimos([Example.of("a", "a", id="case")])
        def test_it(example):
            assert_eval(example.to_test_case("a"), ExactMatch())
        """
    )
    project.runpytest_subprocess("-n", "1", "--dist", "loadgroup", "--dokimos-report", "out.json")
    assert [item.key for item in written(project).item_results] == [f"{path.name}::test_it[case]"]


def test_repeats_of_an_id_that_looks_like_a_repeat_belong_together(project):
    project.makepyfile(
        """
        import pytest
        from dokimos import Example
        from dokimos.evaluators import ExactMatch
        from dokimos.testing import assert_eval

        @pytest.mark.dokimos([Example.of("a", "a", id="case-run1")], runs=2)
        def test_it(example):
            assert_eval(example.to_test_case("a"), ExactMatch())
        """
    )
    project.runpytest("--dokimos-report", "out.json").assert_outcomes(passed=2)
    keys = [[item.key for item in run.item_results] for run in written(project).runs]
    assert len(keys) == 2
    assert keys[0] == keys[1]


def test_a_reporter_gets_a_test_with_subtests_once(project):
    parts = """
        @pytest.mark.dokimos(reporter=log)
        def test_parts(subtests, dokimos_recorder):
            for part in range(3):
                with subtests.test(part=part):
                    dokimos_recorder.actual_output(part)
                    assert part != 1
        """
    project.makepyfile(test_parts=REPORTER.partition("@pytest.mark")[0] + textwrap.dedent(parts))

    project.runpytest_subprocess()

    entries = [json.loads(line) for line in (project.path / "log.jsonl").read_text().splitlines()]
    assert [entry for entry in entries if entry[0] == "item"] == [["item", 0, "1", entries[1][3]]]


def test_a_reporter_that_raises_is_named_and_fails_nothing(project):
    project.makepyfile(REPORTER.replace('self.write("item"', 'raise OSError("gone"); self.write("item"'))
    run = project.runpytest()
    run.assert_outcomes(passed=2)
    run.stdout.fnmatch_lines(["! Log failed 2 times, first with OSError: gone (*.py:* in Log.report_item)"])


def test_a_level_that_is_missed_fails_the_session(project):
    project.makepyfile(
        """
        import pytest
        from dokimos.evaluators import ExactMatch

        @pytest.mark.dokimos("support.jsonl")
        def test_support(example, dokimos_recorder):
            dokimos_recorder.eval_result(ExactMatch().evaluate(example.to_test_case("30 days")))
        """
    )
    run = project.runpytest("--dokimos-fail-under=90%", "--dokimos-fail-under=Exact Match=0.5")
    assert run.ret == pytest.ExitCode.TESTS_FAILED
    run.assert_outcomes(passed=2)
    run.stdout.fnmatch_lines(["FAILED  pass rate 50.0 % is below 90.0 %"])
    run.stdout.no_fnmatch_line("*Exact Match 0.5000*below*")


def test_foreign_text_does_nothing_to_the_terminal(project):
    project.makepyfile(
        """
        from dokimos import EvalTestCase
        from dokimos.evaluators import evaluator
        from dokimos.testing import assert_eval

        def test_hostile():
            check = evaluator(lambda actual_output: False, name="Judge \\x1b[2J", threshold=0.5)
            assert_eval(EvalTestCase.of("q", "\\x9b2J\\u202e"), check)
        """
    )
    run = project.runpytest("--color=no", "--dokimos-fail-under=No \x1b[2J=0.5", "-p", "no:cacheprovider")
    shown = run.stdout.str() + run.stderr.str()
    assert "Judge \\u001b[2J 0.000" in shown
    assert "there is no evaluator" in shown
    assert "\x1b[2J" not in shown


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--dokimos-fail-under=90", "--dokimos-fail-under '90' must be a share"),
        ("--dokimos-report=out.xyz", "Cannot tell the format of the report 'out.xyz'"),
    ],
)
def test_an_option_that_makes_no_sense_ends_the_session_at_once(project, option, message):
    project.makepyfile(SUPPORT)
    run = project.runpytest(option)
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    assert message in run.stderr.str() + run.stdout.str()


@pytest.mark.parametrize(
    ("marker", "signature", "message"),
    [
        ('"nothing.jsonl"', "example", "nothing.jsonl"),
        ('"support.jsonl"', "row", "takes no argument 'example'"),
        ('datset="support.jsonl"', "example", "has no datset="),
        ('jsonl=""', "example", "There are no examples"),
    ],
)
def test_a_marker_that_makes_no_sense_is_a_collection_error_without_a_traceback(
    project, marker, signature, message
):
    project.makepyfile(
        f"import pytest\n@pytest.mark.dokimos({marker})\ndef test_it({signature}):\n    pass\n"
    )
    run = project.runpytest()
    run.assert_outcomes(errors=1)
    assert message in run.stdout.str()
    run.stdout.no_fnmatch_line("*Traceback*")


def test_ids_follow_the_template_of_the_marker_or_the_ini_file(project):
    project.makeini(INI + "dokimos_ids = {index}. {id}\n")
    project.makepyfile(SUPPORT)
    assert "test_support[1. refund]" in project.runpytest("-v").stdout.str()


def test_a_live_test_is_skipped_with_its_reason(project, monkeypatch):
    project.makepyfile(
        """
        import pytest

        @pytest.mark.dokimos_live(env="SOME_API_KEY")
        def test_live():
            assert False, "it ran"
        """
    )
    monkeypatch.delenv("SOME_API_KEY", raising=False)
    run = project.runpytest("-rs")
    run.assert_outcomes(skipped=1)
    run.stdout.fnmatch_lines(["*SOME_API_KEY is not set*"])
    monkeypatch.setenv("SOME_API_KEY", "k")
    project.runpytest().assert_outcomes(failed=1)


JUDGED = """
from dokimos import EvalTestCase, Experiment, Example
from dokimos.evaluators import LLMJudge
from dokimos.testing import assert_eval
import pathlib

def judge(prompt):
    with open(pathlib.Path(__file__).with_name("asked"), "a") as file:
        file.write("x")
    return '{"reason": "Fine.", "score": 1.0}'

right = LLMJudge(criteria="Is it right?", judge=judge)

def test_one():
    assert_eval(EvalTestCase.of("q1", "a"), right)

def test_two():
    assert Experiment([Example.of("q2")], lambda e: "a", [right]).run(journal=False).pass_rate == 1.0
"""


def test_judges_are_recorded_beside_the_module_and_replayed_without_being_asked(project):
    path = project.makepyfile(JUDGED)
    asked = path.with_name("asked")
    project.runpytest_subprocess("--dokimos-cassette=record").assert_outcomes(passed=2)
    assert asked.read_text() == "xx"
    cassette = path.parent / "cassettes" / f"{path.stem}.cassette.jsonl"
    assert len(cassette.read_text().splitlines()) == 2
    project.runpytest_subprocess("--dokimos-cassette=replay").assert_outcomes(passed=2)
    assert asked.read_text() == "xx"


def test_recording_one_test_again_keeps_the_recordings_of_the_others(project):
    path = project.makepyfile(JUDGED)
    project.runpytest_subprocess("--dokimos-cassette=record")
    project.runpytest_subprocess("--dokimos-cassette=record", "-k", "two")
    assert path.with_name("asked").read_text() == "xxx"
    project.runpytest_subprocess("--dokimos-cassette=replay").assert_outcomes(passed=2)


def test_a_call_that_was_not_recorded_fails_in_replay(project):
    path = project.makepyfile(JUDGED)
    project.runpytest_subprocess("--dokimos-cassette=record")
    path.write_text(path.read_text().replace('"q1"', '"q3"'))
    run = project.runpytest_subprocess("--dokimos-cassette=replay")
    run.assert_outcomes(passed=1, failed=1)
    run.stdout.fnmatch_lines(["*has no recording of this call*"])


SILENT = """
import sys

def test_nothing_of_dokimos_was_imported():
    ours = {name for name in sys.modules if name.partition(".")[0] == "dokimos"}
    private = {"dokimos._exports", "dokimos._version", "dokimos.testing._plugin"}
    assert ours <= {"dokimos", "dokimos.testing"} | private
"""


def test_a_suite_that_does_not_use_the_plugin_neither_sees_nor_pays_for_it(project):
    project.makepyfile(SILENT)
    run = project.runpytest_subprocess()
    run.assert_outcomes(passed=1)
    run.stdout.no_fnmatch_line("*= dokimos =*")


def test_help_names_every_option(project):
    text = project.runpytest("--help").stdout.str()
    for option in ("report", "fail-under", "cassette", "update-baseline"):
        assert f"--dokimos-{option}" in text


def test_markers_are_listed(project):
    text = project.runpytest("--markers").stdout.str()
    assert "@pytest.mark.dokimos(" in text
    assert "@pytest.mark.dokimos_live(" in text


GATED = """
from dokimos import Dataset, Example, Experiment, assert_no_regression
from dokimos.evaluators import ExactMatch

RIGHT = 40

def test_gate():
    data = Dataset([Example.of(str(i), "yes", id=f"q{i}") for i in range(40)])
    answer = lambda text: "yes" if int(text) < RIGHT else "no"
    result = Experiment(data, answer, [ExactMatch()], name="support").run(journal=False)
    assert_no_regression(result)
"""


@pytest.fixture
def gated(project, monkeypatch):
    for name in ("CI", "GITHUB_ACTIONS", "DOKIMOS_UPDATE_BASELINE", "DOKIMOS_BASELINE_DIR"):
        monkeypatch.delenv(name, raising=False)
    path = project.makepyfile(GATED)
    project.runpytest_subprocess().assert_outcomes(passed=1)
    return path


@pytest.mark.parametrize("arguments", [(), ("-n", "2")])
def test_a_gate_that_compared_nothing_is_in_the_summary_of_warnings(project, monkeypatch, arguments):
    monkeypatch.setenv("CI", "true")
    path = project.makepyfile(GATED)
    missing = (
        "BaselineWarning: There is no baseline tests/baselines/support.json, so nothing was compared. Create "
        f"it on your machine (DOKIMOS_UPDATE_BASELINE=true pytest {path.name}::test_gate) and commit it."
    )
    updated = (
        "BaselineWarning: Updated the baseline tests/baselines/support.json to this run. Review the change "
        "and commit it."
    )

    for expected, more in ((missing, ()), (updated, ("--dokimos-update-baseline",))):
        run = project.runpytest_subprocess(*arguments, *more)
        run.assert_outcomes(passed=1, warnings=1)
        assert expected in run.stdout.str()
    monkeypatch.delenv("CI")
    run = project.runpytest_subprocess(*arguments)
    run.assert_outcomes(passed=1, warnings=0)


def test_where_warnings_are_errors_a_gate_without_a_baseline_passes_all_the_same(project, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    project.makepyfile(GATED)
    run = project.runpytest_subprocess("-W", "error", "-o", "log_cli=true")
    run.assert_outcomes(passed=1)
    assert "Created the baseline tests/baselines/support.json from this run." in run.stdout.str()


def test_the_first_run_writes_a_baseline_in_pytests_root_and_the_next_compares(project, gated):
    assert (project.path / "tests" / "baselines" / "support.json").exists()
    project.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_regression_fails_and_says_how_to_accept_it(project, gated):
    gated.write_text(gated.read_text().replace("RIGHT = 40", "RIGHT = 25"))
    run = project.runpytest_subprocess()
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(
        ["*RegressionError: *", f"*DOKIMOS_UPDATE_BASELINE=true pytest {gated.name}::test_gate*"]
    )


def test_a_baseline_is_updated_on_demand(project, gated):
    gated.write_text(gated.read_text().replace("RIGHT = 40", "RIGHT = 25"))
    project.runpytest_subprocess("--dokimos-update-baseline").assert_outcomes(passed=1)
    project.runpytest_subprocess().assert_outcomes(passed=1)


def test_the_command_that_accepts_names_no_group_of_xdist(project, gated):
    text = gated.read_text().replace("RIGHT = 40", "RIGHT = 25")
    text = text.replace("def test_gate", "@pytest.mark.xdist_group('nightly@test_gate')\ndef test_gate")
    gated.write_text("import pytest\n" + text)
    run = project.runpytest_subprocess("-n", "2", "--dist", "loadgroup")
    assert f"DOKIMOS_UPDATE_BASELINE=true pytest {gated.name}::test_gate, then" in run.stdout.str()


@pytest.mark.parametrize("check", ["RegressionGate().verify(result)", "assert_no_regression(result)"])
def test_a_gate_below_the_root_keeps_its_baseline_in_the_root(project, gated, monkeypatch, check):
    service = project.mkdir("service")
    (service / "pyproject.toml").write_text("")
    text = gated.read_text().replace("import Dataset,", "import RegressionGate, Dataset,")
    text = text.replace("assert_no_regression(result)", check)
    (service / "test_it.py").write_text(text.replace('name="support"', 'name="other"'))
    monkeypatch.chdir(service)

    project.runpytest_subprocess("--rootdir=..", "test_it.py").assert_outcomes(passed=1)

    assert (project.path / "tests" / "baselines" / "other.json").exists()
    assert not (service / "tests").exists()


@pytest.mark.parametrize("check", ["RegressionGate().verify(result)", "assert_no_regression(result)"])
def test_the_command_that_accepts_is_typed_below_the_root(project, gated, monkeypatch, check):
    text = (
        gated.read_text().replace("RIGHT = 40", "RIGHT = 25").replace("assert_no_regression(result)", check)
    )
    gated.write_text(text.replace("import Dataset,", "import RegressionGate, Dataset,"))
    monkeypatch.chdir(project.mkdir("below"))

    run = project.runpytest_subprocess(f"../{gated.name}")

    accept = f"DOKIMOS_UPDATE_BASELINE=true pytest ../{gated.name}::test_gate"
    assert f"{accept}, then commit ../tests/baselines/support.json" in run.stdout.str()


def test_updating_ends_with_the_session(project, gated):
    project.runpytest_inprocess("--dokimos-update-baseline").assert_outcomes(passed=1)
    assert "DOKIMOS_UPDATE_BASELINE" not in os.environ


def test_a_live_marker_without_a_variable_fails(project):
    project.makepyfile("import pytest\n@pytest.mark.dokimos_live\ndef test_live():\n    pass\n")
    run = project.runpytest()
    run.assert_outcomes(errors=1)
    run.stdout.fnmatch_lines(["*dokimos_live needs env=*"])

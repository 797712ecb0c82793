"""The life of a gate: the first run, comparing, updating, CI; and what it leaves on disk."""

import json
import logging
import warnings
from pathlib import Path

import pytest

from dokimos._core.example import Example
from dokimos.comparison import Snapshot
from dokimos.datasets._dataset import Dataset
from dokimos.errors import BaselineWarning, ConfigurationError, RegressionError
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment
from dokimos.gate import GateConfig, GateStatus, RegressionGate, assert_no_regression
from dokimos.gate._verdict_markdown import VerdictFile


@pytest.fixture(autouse=True)
def developer(monkeypatch, tmp_path):
    """A developer's machine with an empty project."""
    for name in (
        "CI",
        "GITHUB_ACTIONS",
        "DOKIMOS_UPDATE_BASELINE",
        "DOKIMOS_BASELINE_DIR",
        "DOKIMOS_VERDICT_DIR",
    ):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    return tmp_path


@pytest.fixture
def good(result):
    return result({"Match": [1, 1, 1, 1]})


@pytest.fixture
def bad(result):
    return result({"Match": [1, 0, 1, 1]})


def verdict_file(project, name="support"):
    return json.loads((project / ".dokimos" / "verdicts" / f"{name}.json").read_text())


def verdict_files(project):
    return sorted((project / ".dokimos" / "verdicts").iterdir())


def test_the_first_run_writes_the_baseline_in_the_project_and_passes(good, developer, caplog):
    with caplog.at_level(logging.WARNING, logger="dokimos.gate"):
        verdict = assert_no_regression(good)

    path = developer / "tests" / "baselines" / "support.json"
    assert path.is_file()
    assert verdict.passed
    assert "Created the baseline ../../tests/baselines/support.json from this run." in verdict.message
    assert "Review and commit it" in caplog.text
    assert not (developer / ".dokimos").exists()


def test_the_second_run_compares_and_passes(good, developer):
    assert_no_regression(good)

    verdict = assert_no_regression(good)

    assert verdict.status is GateStatus.PASS
    assert verdict.comparison.pass_rate.delta == 0.0
    assert verdict_file(developer)["passed"] is True


def test_a_worse_run_raises_an_assertion_error_with_how_to_accept_it(good, bad, developer, monkeypatch):
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/test_bot.py::test_gate[a b] (call)")
    assert_no_regression(good, "bot")

    with pytest.raises(RegressionError) as failure:
        assert_no_regression(bad, "bot")

    assert isinstance(failure.value, AssertionError)
    text = str(failure.value)
    assert text.startswith("Eval gate FAILED: pass rate 100.0 % -> 75.0 % (-25 pts).")
    assert "q-1: Match 1.00 -> 0.00" in text
    assert "DOKIMOS_UPDATE_BASELINE=true pytest 'tests/test_bot.py::test_gate[a b]'" in text
    assert "then commit ../../tests/baselines/bot.json" in text
    assert failure.value.verdict.status is GateStatus.FAIL


def test_the_verdict_is_on_disk_before_the_gate_raises_and_stays_out_of_git(good, bad, developer):
    assert_no_regression(good)
    with pytest.raises(RegressionError):
        assert_no_regression(bad)

    tree = verdict_file(developer)

    assert (tree["status"], tree["passed"]) == ("FAIL", False)
    assert "*" in (developer / ".dokimos" / ".gitignore").read_text()


def test_every_verdict_says_what_it_rests_on(good, developer):
    assert_no_regression(good)

    message = assert_no_regression(good).message

    assert (
        "Tested at alpha = 0.05 (westfall-young, 2 metrics) on n = 4 items, 0 worse and 0 better" in message
    )
    assert "95 % interval" in message
    assert "With 80 % power it could see" in message


def test_accepting_the_change_overwrites_the_baseline_even_in_ci(good, bad, monkeypatch, developer):
    assert_no_regression(good)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("DOKIMOS_UPDATE_BASELINE", "Yes")

    verdict = assert_no_regression(bad)
    monkeypatch.delenv("DOKIMOS_UPDATE_BASELINE")

    assert verdict.passed
    assert "Updated the baseline ../../tests/baselines/support.json to this run." in verdict.message
    assert not (developer / ".dokimos").exists()
    assert assert_no_regression(bad).passed


def test_accepting_the_change_takes_the_verdict_back_that_it_answers(good, bad, monkeypatch, developer):
    assert_no_regression(good)
    assert_no_regression(good, "other")
    for name in ("support", "other"):
        with pytest.raises(RegressionError):
            assert_no_regression(bad, name)

    monkeypatch.setenv("DOKIMOS_UPDATE_BASELINE", "1")
    assert_no_regression(bad)

    assert [path.name for path in (developer / ".dokimos" / "verdicts").iterdir()] == ["other.json"]


def test_baselines_of_one_name_in_several_folders_have_verdicts_of_their_own(good, bad, developer):
    for folder in ("a", "b"):
        assert_no_regression(good, developer / folder / "support.json")
    assert_no_regression(good, developer / "a" / "support.json")
    with pytest.raises(RegressionError):
        assert_no_regression(bad, developer / "b" / "support.json")

    found = [VerdictFile("", json.loads(path.read_text())) for path in verdict_files(developer)]

    assert [verdict.tree["name"] for verdict in found] == ["a/support.json", "b/support.json"]
    assert [verdict.passed for verdict in found] == [True, False]


def test_a_comparison_with_a_run_has_a_verdict_of_its_own(good, bad, developer):
    assert_no_regression(good)
    assert_no_regression(good)

    verdict = RegressionGate().check_against(bad, Snapshot.of(good))

    assert verdict.status is GateStatus.FAIL
    assert verdict_file(developer)["status"] == "PASS"
    assert verdict_file(developer, "support-against-another-run")["status"] == "FAIL"


def test_accepting_can_be_asked_for_in_the_configuration(good, bad):
    assert_no_regression(good)
    assert_no_regression(bad, config=GateConfig(update_baseline=True))

    assert assert_no_regression(bad).passed


def test_in_ci_a_missing_baseline_is_reported_and_nothing_is_written(good, monkeypatch, developer, caplog):
    monkeypatch.setenv("GITHUB_ACTIONS", "1")

    with caplog.at_level(logging.WARNING, logger="dokimos.gate"):
        verdict = assert_no_regression(good)

    assert verdict.status is GateStatus.NO_BASELINE
    assert verdict.passed
    assert not (developer / "tests").exists()
    assert "There is no baseline ../../tests/baselines/support.json, so nothing was compared." in caplog.text
    assert caplog.records[0].getMessage() in verdict.message
    tree = verdict_file(developer)
    assert (tree["status"], tree["passed"], tree["pairing"]) == ("NO_BASELINE", True, "none")
    assert tree["candidatePassRate"] == 1.0


def test_a_misspelt_baseline_is_created_or_missing_with_the_similar_one(good, monkeypatch, developer):
    assert_no_regression(good)

    assert "support.json; did you mean that one?" in RegressionGate("suport").check(good).message
    monkeypatch.setenv("CI", "1")
    assert "support.json; did you mean that one?" in RegressionGate("supprt").check(good).message


def test_a_missing_baseline_can_be_made_to_fail(good, monkeypatch, developer):
    monkeypatch.setenv("CI", "1")

    with pytest.raises(RegressionError, match="There is no baseline"):
        assert_no_regression(good, config=GateConfig(on_no_baseline="fail"))

    assert verdict_file(developer)["passed"] is False


def test_the_strict_stance_writes_the_first_baseline_and_fails_once(good):
    strict = GateConfig(bootstrap_passes=False)

    with pytest.raises(RegressionError, match=r"Review and commit it, then run again\."):
        assert_no_regression(good, config=strict)

    assert assert_no_regression(good, config=strict).passed


def test_an_inconclusive_gate_does_not_pass(good):
    assert_no_regression(good)

    with pytest.raises(RegressionError, match="INCONCLUSIVE") as failure:
        assert_no_regression(good, config=GateConfig(require_power=0.8))

    assert failure.value.verdict.status is GateStatus.INCONCLUSIVE


def test_an_unnamed_experiment_needs_a_name_or_a_path(result, tmp_path):
    unnamed = result({"A": [1]}, name="unnamed")

    with pytest.raises(ConfigurationError, match="needs a name"):
        assert_no_regression(unnamed)
    with pytest.raises(ConfigurationError, match="needs a name"):
        assert_no_regression(unnamed, " ")
    assert assert_no_regression(unnamed, tmp_path / "x.json").passed
    assert (tmp_path / "x.json").is_file()


def test_places_can_be_given_by_environment(good, monkeypatch, developer):
    monkeypatch.setenv("DOKIMOS_BASELINE_DIR", "evals/base")
    monkeypatch.setenv("DOKIMOS_VERDICT_DIR", "out/verdicts")

    assert_no_regression(good)
    assert_no_regression(good)

    assert (developer / "evals" / "base" / "support.json").is_file()
    assert (developer / "out" / "verdicts" / "support.json").is_file()


def test_places_can_be_given_by_argument(good, tmp_path):
    for _ in range(2):
        assert_no_regression(good, root=tmp_path / "other", verdict_dir=tmp_path / "v")

    assert (tmp_path / "other" / "tests" / "baselines" / "support.json").is_file()
    assert (tmp_path / "v" / "support.json").is_file()


def test_a_name_cannot_leave_the_folder_of_baselines(good, developer):
    assert_no_regression(good, "../../evil name")

    assert [path.name for path in (developer / "tests" / "baselines").iterdir()] == ["-..-evil name.json"]


@pytest.mark.parametrize(("first", "second"), [("b/c", "b-c"), ("b-c", "b/c"), ("b:c", "b/c")])
def test_two_names_that_make_one_file_are_refused(good, bad, developer, monkeypatch, first, second):
    assert_no_regression(good, first)
    path = developer / "tests" / "baselines" / "b-c.json"
    before = path.read_bytes()

    with pytest.raises(ConfigurationError, match=rf"b-c\.json belongs to the gate '{first}'.*'{second}'"):
        assert_no_regression(bad, second)
    monkeypatch.setenv("DOKIMOS_UPDATE_BASELINE", "1")
    with pytest.raises(ConfigurationError, match="Rename one of the two"):
        assert_no_regression(bad, second)

    assert path.read_bytes() == before
    assert assert_no_regression(good, first).passed


def test_the_name_of_the_experiment_is_the_name_of_the_gate(good, bad, result):
    assert_no_regression(good)

    assert assert_no_regression(result({"Match": [1, 1, 1, 1]}, name="other"), "support").passed


def test_a_file_that_names_no_gate_serves_any_until_it_is_written_anew(good, bad, developer, monkeypatch):
    path = developer / "tests" / "baselines" / "b-c.json"
    assert_no_regression(good, path)
    assert "gate" not in json.loads(path.read_text())
    assert assert_no_regression(good, "b/c").passed
    assert assert_no_regression(good, "b-c").passed

    monkeypatch.setenv("DOKIMOS_UPDATE_BASELINE", "1")
    assert_no_regression(good, "b/c")

    with pytest.raises(ConfigurationError, match="belongs to the gate 'b/c'"):
        assert_no_regression(good, "b-c")


def test_a_damaged_baseline_can_be_written_anew(good, developer, monkeypatch):
    assert_no_regression(good)
    path = developer / "tests" / "baselines" / "support.json"
    path.write_text("{")
    monkeypatch.setenv("DOKIMOS_UPDATE_BASELINE", "1")

    assert_no_regression(good)

    assert json.loads(path.read_text())["gate"] == "support"


@pytest.mark.parametrize(("name", "problem"), [("..", "needs a name"), ("ä" * 101, "too long for a file")])
def test_a_name_that_makes_no_file_is_refused(good, developer, name, problem):
    with pytest.raises(ConfigurationError, match=problem):
        assert_no_regression(good, name)

    assert not (developer / "tests").exists()


def test_the_verdict_of_a_name_with_blanks_has_a_safe_file_name(good, developer):
    for _ in range(2):
        assert_no_regression(good, "RAG gate: v2")

    assert (developer / ".dokimos" / "verdicts" / "RAG-gate--v2.json").is_file()


def test_a_verdict_that_cannot_be_written_does_not_hide_the_result(good, bad, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    assert_no_regression(good)

    with caplog.at_level(logging.WARNING, logger="dokimos.gate"), pytest.raises(RegressionError):
        assert_no_regression(bad, verdict_dir=tmp_path / "file")

    assert "could not be written" in caplog.text


def test_a_configuration_that_contradicts_the_baseline_is_refused(good):
    assert_no_regression(good)

    with pytest.raises(
        ConfigurationError, match=r"by 'dataset_item_id', .* says 'positional'.* Write a new baseline"
    ):
        assert_no_regression(good, config=GateConfig(pairing="positional"))


def test_a_damaged_baseline_is_an_error_and_no_verdict(good, developer):
    assert_no_regression(good)
    (developer / "tests" / "baselines" / "support.json").write_text("{}")

    with pytest.raises(ConfigurationError, match="is not a baseline"):
        assert_no_regression(good)


def test_check_returns_a_failure_instead_of_raising_it(good, bad):
    assert_no_regression(good)

    assert RegressionGate().check(bad).status is GateStatus.FAIL


BASELINE = "../../tests/baselines/support.json"
CREATED = (
    f"Created the baseline {BASELINE} from this run. Review and commit it: later runs are compared with it."
)
UPDATED = f"Updated the baseline {BASELINE} to this run. Review the change and commit it."
MISSING = (
    f"There is no baseline {BASELINE}, so nothing was compared. Create it on your machine (COMMAND) and "
    "commit it."
)


@pytest.mark.parametrize(
    "verify", [assert_no_regression, lambda result, **options: RegressionGate(**options).verify(result)]
)
class TestWarnings:
    """A gate that passes without a comparison never does so silently."""

    def messages(self, warned):
        assert [(warning.category, warning.filename) for warning in warned] == [(BaselineWarning, __file__)]
        return str(warned[0].message)

    def test_a_baseline_was_created(self, good, verify):
        with pytest.warns(BaselineWarning) as warned:
            verify(good)

        assert self.messages(warned) == CREATED

    def test_a_baseline_was_updated(self, good, bad, verify, monkeypatch):
        RegressionGate().check(good)
        monkeypatch.setenv("DOKIMOS_UPDATE_BASELINE", "1")

        with pytest.warns(BaselineWarning) as warned:
            verify(bad)

        assert self.messages(warned) == UPDATED

    def test_a_baseline_is_missing_in_ci(self, good, verify, monkeypatch):
        monkeypatch.setenv("CI", "true")

        with pytest.warns(BaselineWarning) as warned:
            verify(good, accept_command="COMMAND")

        assert self.messages(warned) == MISSING

    def test_where_warnings_are_errors_the_log_has_it_and_the_run_is_not_lost(self, good, verify, caplog):
        with warnings.catch_warnings(action="error"):
            assert verify(good).passed

        assert [record.getMessage() for record in caplog.records] == [CREATED]

    def test_a_comparison_has_nothing_to_warn_of(self, good, verify, caplog):
        RegressionGate().check(good)
        caplog.clear()

        with warnings.catch_warnings(action="error"):
            assert verify(good).passed

        assert not caplog.records

    def test_a_failure_is_an_exception_only(self, good, verify, caplog):
        with warnings.catch_warnings(action="error"), pytest.raises(RegressionError, match="run again"):
            verify(good, config=GateConfig(bootstrap_passes=False))

        assert not caplog.records


def test_check_logs_what_it_did_instead_of_comparing(good, caplog):
    with warnings.catch_warnings(action="error"):
        RegressionGate().check(good)

    assert [record.getMessage() for record in caplog.records] == [CREATED]


def test_a_file_name_with_blanks_can_be_copied_into_a_command(good, bad):
    with pytest.warns(BaselineWarning, match=r"baseline '../../tests/baselines/RAG v2\.json' from"):
        assert_no_regression(good, "RAG v2")
    with pytest.raises(RegressionError, match=r"then commit '../../tests/baselines/RAG v2\.json'"):
        assert_no_regression(bad, "RAG v2")


class TestConfirming:
    """Running suspicious items again."""

    def experiment(self, answers):
        """An experiment whose task answers each question from a list, one answer after the other."""
        pending = {key: list(values) for key, values in answers.items()}
        examples = [Example.of(f"question {i}", f"answer {i}", id=f"q-{i}") for i in range(4)]
        self.asked = []

        def task(example):
            self.asked.append(example.id)
            left = pending.get(example.id)
            return left.pop(0) if left else example.expected_output

        return Experiment(Dataset(examples, name="letters"), task, [ExactMatch(name="Match")], name="support")

    def test_only_the_suspicious_items_run_again_and_the_majority_clears_them(self, good, bad):
        assert_no_regression(good)
        experiment = self.experiment({"q-1": ["wrong"]})

        verdict = assert_no_regression(bad, config=GateConfig(confirm=3), rerun=experiment)

        assert self.asked == ["q-1"] * 3
        assert verdict.passed
        assert any("did not confirm q-1 (Match)" in text for text in verdict.warnings)

    def test_a_drop_that_most_repeats_show_fails(self, good, bad):
        assert_no_regression(good)
        experiment = self.experiment({"q-1": ["wrong", "wrong"]})

        with pytest.raises(RegressionError, match="q-1: Match"):
            assert_no_regression(bad, config=GateConfig(confirm=3), rerun=experiment)

    def test_errors_of_repeats_confirm_it(self, good, bad):
        assert_no_regression(good)
        experiment = self.experiment({"q-1": [None, None, None]})

        with pytest.raises(RegressionError):
            assert_no_regression(bad, config=GateConfig(confirm=3), rerun=experiment)

    def test_a_function_of_examples_will_do(self, good, bad, result):
        assert_no_regression(good)
        given = []

        def rerun(examples):
            given.append([example.id for example in examples])
            return result({"Match": [1]})

        assert assert_no_regression(bad, config=GateConfig(confirm=2), rerun=rerun).passed
        assert given == [["q-1"], ["q-1"]]

    def test_a_function_that_returns_too_little_is_refused(self, good, bad, result):
        assert_no_regression(good)

        with pytest.raises(ConfigurationError, match="every example"):
            assert_no_regression(bad, config=GateConfig(confirm=1), rerun=lambda _: result({"Match": []}))
        with pytest.raises(ConfigurationError, match="ExperimentResult"):
            assert_no_regression(bad, config=GateConfig(confirm=1), rerun=lambda _: None)

    def test_nothing_runs_again_where_nothing_is_suspicious(self, good):
        assert_no_regression(good)
        experiment = self.experiment({})

        assert assert_no_regression(good, config=GateConfig(confirm=3), rerun=experiment).passed
        assert self.asked == []

    @pytest.mark.parametrize("options", [{"fail_on_regression": False}, {"fail_on_removed_items": True}])
    def test_nothing_runs_again_where_the_verdict_does_not_depend_on_it(self, result, good, options):
        assert_no_regression(good)
        experiment = self.experiment({})
        fewer = result({"Match": [1, 0, 1]})

        verdict = RegressionGate(config=GateConfig(confirm=3, **options), rerun=experiment).check(fewer)

        assert self.asked == []
        assert verdict.passed is not options.get("fail_on_removed_items", False)
        assert any("were not run again" in text for text in verdict.warnings)

    def test_without_a_way_to_run_again_it_is_refused_at_once(self, good):
        with pytest.raises(ConfigurationError, match="set rerun="):
            assert_no_regression(good, config=GateConfig(confirm=3))


def test_a_verdict_says_where_items_that_got_worse_stand_in_the_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": f"id{number}", "input": f"q{number}", "expectedOutput": f"Q{number}"} for number in range(20)
    ]
    Path("data.jsonl").write_text("".join(f"\n{json.dumps(row)}" for row in rows))
    data = Dataset.load("data.jsonl")

    def judge(task):
        return Experiment(data, task, [ExactMatch()], name="faq").run(quiet=True, journal=False)

    gate = RegressionGate("faq", root=tmp_path, config=GateConfig(severity="any"))
    gate.check(judge(str.upper))
    verdict = gate.check(judge(lambda question: question if question == "q3" else question.upper()))

    [case] = verdict.tree()["cases"]
    assert (case["datasetItemId"], case["file"], case["line"]) == ("id3", "data.jsonl", 5)
    assert "item `id3` at `data.jsonl:5`" in verdict.to_markdown()

    (tmp_path / "pyproject.toml").unlink()
    (tmp_path / ".git").mkdir()
    (tmp_path / "backend").mkdir()
    Path("data.jsonl").rename("backend/data.jsonl")
    monkeypatch.chdir("backend")  # of a repository with several projects
    nested = RegressionGate("faq", root=tmp_path / "backend", config=GateConfig(severity="any"))
    nested.check(judge(str.upper))
    [case] = nested.check(judge(lambda question: question if question == "q3" else question.upper())).tree()[
        "cases"
    ]
    assert (case["file"], case["line"]) == ("backend/data.jsonl", 5)

    Path("data.jsonl").unlink()  # as where a result is checked on another machine
    [case] = gate.check(judge(lambda question: question if question == "q3" else question.upper())).tree()[
        "cases"
    ]
    assert "line" not in case

"""Whole searches over real suites, and what they leave behind."""

import codecs
import json
import sys

import pytest

from dokimos.errors import ConfigurationError, JournalError, MissingExtraError, RunError
from dokimos.experiment._run_loading import list_runs, load_run
from dokimos.optimizer._optimization import PROGRESS_SCHEMA, optimize_suite
from dokimos.suites import load_suite

BOTH = "{numeric: [{path: agent.params.k, type: int, range: [1, 5]}], textual: [{path: agent.params.prompt}]}"


def changed_lines(before, after):
    pairs = zip(before.splitlines(), after.splitlines(), strict=True)
    return [(old, new) for old, new in pairs if old != new]


def test_a_better_parameter_is_found_and_only_its_line_differs(workshop):
    optimized = workshop.optimize()

    k = optimized.state.best.candidate.numbers["agent.params.k"]
    assert k > 2
    before = (workshop.path / "agent.yaml").read_text()
    assert changed_lines(before, optimized.best_file.read_text()) == [
        ("    k: 2   # how many it knows", f"    k: {k}   # how many it knows")
    ]


def test_the_best_suite_runs_and_reaches_the_loss_that_was_told(workshop):
    optimized = workshop.optimize(BOTH, model="app.py:writer", max_cycles=1)
    (workshop.path / "better.yaml").write_text(optimized.best_file.read_text())

    result = load_suite(workshop.path / "better.yaml").experiment().run(journal=False, progress=False)

    assert optimized.state.best.candidate.texts == {"agent.params.prompt": "Be exact."}
    assert result.pass_rate == 1.0
    assert optimized.state.best.loss == 0.0


def test_a_suite_that_nothing_improves_stays_as_it_is_to_the_letter(workshop):
    axis = "{numeric: [{path: agent.params.mood, type: categorical, range: [odd, even, other]}]}"

    optimized = workshop.optimize(axis)

    assert not optimized.state.has_improved
    assert optimized.best_file.read_bytes() == (workshop.path / "agent.yaml").read_bytes()
    assert "**No improvement**" in (optimized.folder / "report.md").read_text()


def test_each_trial_is_a_line_with_the_documented_fields(workshop):
    optimized = workshop.optimize(BOTH, model="app.py:writer", max_cycles=1)

    rows = [json.loads(line) for line in (optimized.folder / "trials.jsonl").read_text().splitlines()]

    documented = {
        "trial_id", "cycle", "phase", "loss", "baseline_loss", "accepted", "params", "textual_axis",
        "edit_summary", "excluded_metrics", "error",
    }  # fmt: skip
    assert all(documented <= set(row) for row in rows)
    assert [row["trial_id"] for row in rows] == list(range(1, len(rows) + 1))
    textual = next(row for row in rows if row["phase"] == "textual")
    assert (textual["textual_axis"], textual["edit_summary"]) == (
        "agent.params.prompt",
        "asks for exact numbers",
    )
    assert [row["trial_id"] for row in rows if row["accepted"]][-1] == optimized.state.best.id


def test_the_events_have_their_documented_names_and_a_schema(workshop):
    workshop.optimize(BOTH, model="app.py:writer", max_cycles=1)

    assert {event["event"] for event in workshop.events} == {
        "run_started", "baseline", "cycle_started", "phase_started", "trial_started", "trial",
        "phase_completed", "cycle_completed", "run_completed",
    }  # fmt: skip
    assert {event["schema"] for event in workshop.events} == {PROGRESS_SCHEMA}
    assert json.loads(json.dumps(workshop.events)) == workshop.events


def test_the_runs_of_the_trials_are_stored_like_any_other(workshop):
    optimized = workshop.optimize()

    listed = list_runs(workshop.path / "runs")
    about = [load_run(entry.folder).metadata["optimizer"] for entry in listed]
    assert {entry["search"] for entry in about} == {optimized.folder.name}
    trials = [(entry["trial"], entry["split"]) for entry in about]
    assert len(trials) == len(set(trials)) == len(optimized.state.trials) + 1 + 2
    best = optimized.state.best
    assert load_run(workshop.path / "runs" / best.measured.run_id).metadata["optimizer"]["params"] == {
        "agent.params.k": best.candidate.numbers["agent.params.k"]
    }


def test_a_search_that_has_ended_is_gone_through_again_without_a_call(workshop):
    first = workshop.optimize()
    report = (first.folder / "report.md").read_text()
    calls = len(workshop.calls)

    again = workshop.search(workshop.path / "agent.yaml", resume="latest")

    assert len(workshop.calls) == calls
    assert again.state.trials == first.state.trials
    assert (again.folder / "report.md").read_text() == report
    assert workshop.events[0]["resumed"] is True


class Cut(BaseException):
    """The end of a process."""


@pytest.mark.parametrize("after", [1, 4, 9])
def test_a_search_that_was_cut_off_repeats_no_trial_that_has_ended(workshop, after):
    path = workshop.write()

    def cut(event):
        if event["event"] == "trial" and event["trial_id"] == after:
            raise Cut

    with pytest.raises(Cut):
        workshop.search(path, listener=cut)
    known = len(workshop.calls)
    resumed = workshop.search(path, resume="latest")
    total = len(workshop.calls)
    (workshop.path / "calls.txt").unlink()
    uncut = workshop.search(path)

    assert known < total == len(workshop.calls)
    assert [t.candidate for t in resumed.state.trials] == [t.candidate for t in uncut.state.trials]
    assert resumed.state.best.id == uncut.state.best.id


def test_another_suite_cannot_go_on_with_a_search(workshop):
    workshop.optimize()

    with pytest.raises(JournalError, match=r"has changed since .* \(seed\)"):
        workshop.optimize(seed=7, resume="latest")
    path = workshop.path / "agent.yaml"
    path.write_text(path.read_text().replace("k: 2", "k: 3").replace("    seed: 7\n", ""))
    with pytest.raises(JournalError, match="The suite has changed since"):
        workshop.search(path, resume="latest")
    with pytest.raises(JournalError, match="There is no search 'nothing'"):
        workshop.search(path, resume="nothing")


def test_settings_of_the_command_line_replace_the_suites_and_are_kept_for_going_on(workshop):
    path = workshop.write()
    settings = {"numeric_phase": {"max_trials": 2}, "max_cycles": 1}

    first = workshop.search(path, settings=settings)
    again = workshop.search(path, resume=first.folder.name)

    assert len(first.state.trials) == len(again.state.trials) == 2


def test_a_budget_ends_the_search_and_a_larger_one_goes_on_with_it(workshop):
    path = workshop.write()

    first = workshop.search(path, settings={"budget": {"max_cost_usd": 0.2}})
    calls = len(workshop.calls)
    again = workshop.search(path, resume="latest", settings={"budget": {"max_cost_usd": 10}})

    assert "budget" in first.state.stopped
    assert 0.04 < first.cost_usd <= 0.2
    assert len(again.state.trials) > len(first.state.trials)
    assert "budget" not in again.state.stopped
    # what the budget cut off was gone on with: no question was asked twice with the same values
    assert len(set(workshop.calls)) == len(workshop.calls) > calls


def test_a_budget_of_calls_ends_the_search_too(workshop):
    path = workshop.write()

    first = workshop.search(path, settings={"budget": {"max_calls": 50}})
    calls = len(workshop.calls)
    again = workshop.search(path, resume="latest", settings={"budget": {"max_calls": 10_000}})

    assert "max_calls" in first.state.stopped
    assert calls == 50
    assert "budget" not in again.state.stopped
    assert len(set(workshop.calls)) == len(workshop.calls) > calls


def test_what_was_cut_off_is_not_charged_twice(workshop):
    path = workshop.write()  # a trial has 20 training cases

    first = workshop.search(path, settings={"budget": {"max_calls": 50}})
    again = workshop.search(path, resume="latest", settings={"budget": {"max_calls": 60}})

    assert len(first.state.trials) == 1
    assert len(again.state.trials) == 2
    assert len(workshop.calls) == 60


@pytest.mark.parametrize("limit", [75, 101])
@pytest.mark.parametrize("trials", [2, 4])
def test_trials_at_once_share_what_the_suite_as_it_is_has_left_of_the_budget(workshop, limit, trials):
    optimized = workshop.optimize(parallel_trials=trials, budget=f"{{max_calls: {limit}}}")

    assert optimized.state.baseline.measured.calls == 20
    assert "budget" in optimized.state.stopped
    assert len(workshop.calls) == limit


def test_a_ceiling_on_the_cost_keeps_dear_candidates_out(workshop):
    optimized = workshop.optimize(max_cost_usd=0.0061, numeric_phase="{max_trials: 10, patience: 10}")

    assert 2 < optimized.state.best.candidate.numbers["agent.params.k"] <= 6
    assert any(trial.infeasible for trial in optimized.state.trials)


def test_a_value_with_which_the_application_fails_is_a_trial_without_result(workshop):
    axis = "{numeric: [{path: agent.params.mood, type: categorical, range: [odd, broken]}]}"

    optimized = workshop.optimize(axis)

    (trial,) = optimized.state.trials
    assert "the model is down" in trial.error
    assert not optimized.state.has_improved


def test_a_suite_whose_application_fails_as_it_is_ends_the_search(workshop):
    path = workshop.write()
    path.write_text(path.read_text().replace("mood: odd", "mood: broken"))

    with pytest.raises(RunError, match="the model is down"):
        workshop.search(path)
    assert workshop.events[-1]["event"] == "error"


def test_repeats_of_a_trial_are_runs_of_it(workshop):
    optimized = workshop.optimize(repeats=2, max_cycles=1, numeric_phase="{max_trials: 1, patience: 1}")

    run = load_run(workshop.path / "runs" / optimized.state.baseline.measured.run_id)
    assert run.run_count == 2
    assert all(
        len(values) == 2
        for case in optimized.state.baseline.measured.scores.values()
        for values in case.values()
    )


def test_trials_at_once_give_a_search_that_can_be_gone_on_with_too(workshop):
    optimized = workshop.optimize(parallel_trials=3)

    again = workshop.search(workshop.path / "agent.yaml", resume="latest")
    assert again.state.trials == optimized.state.trials
    assert optimized.state.has_improved


def test_few_cases_are_warned_of_and_without_held_out_ones_the_training_cases_decide(workshop):
    few = "test_cases:\n" + "".join(f'  - {{input: "number {n}", ground_truth: {n}}}\n' for n in range(6))

    warned = workshop.optimize(cases=few)
    decided = workshop.optimize(cases=few, holdout=0)

    assert "3 held-out of 6 cases can never show that something is better" in " ".join(warned.warnings)
    assert not warned.state.has_improved
    assert "There are no held-out cases" in " ".join(decided.warnings)
    assert decided.state.has_improved


def test_variables_and_comments_stay_in_the_best_suite(workshop, monkeypatch):
    monkeypatch.setenv("WHO", "you")
    path = workshop.write(BOTH, model="app.py:writer", max_cycles=1)
    path.write_text(path.read_text().replace("mood: odd", 'mood: "${MOOD:-odd}"   # secret'))

    optimized = workshop.search(path)

    assert '    mood: "${MOOD:-odd}"   # secret\n' in optimized.best_file.read_text()
    assert optimized.best_file.read_text().startswith("# The suite of the sums.\nname: sums   # short\n")


def test_a_text_keeps_its_variables_and_they_are_filled_in_when_it_is_tried(workshop, monkeypatch):
    monkeypatch.setenv("WORD", "exact")
    head = "def writer(prompt):\n    import json\n    return json.dumps("
    app = workshop.path / "app.py"
    source = app.read_text().partition("def writer")[0]
    app.write_text(
        source + head + '{"diagnosis": "d", "advice": "a"} if \'"advice"\' in prompt else '
        '{"text": "Be ${WORD:-x}.", "summary": "s"})\n'
    )
    path = workshop.write("{textual: [{path: agent.params.prompt}]}", model="app.py:writer", max_cycles=1)
    path.write_text(path.read_text().replace("prompt: Be brief.", "prompt: Try ${WORD:-x}"))
    monkeypatch.setenv("WORD", "hard")
    unchanged = workshop.search(path)
    monkeypatch.setenv("WORD", "exact")

    assert not unchanged.state.has_improved
    assert workshop.search(path).state.baseline.loss == 0.0


@pytest.mark.parametrize("axes", [BOTH, "{textual: [{path: agent.params.prompt}]}"])
def test_a_missing_package_says_what_to_install_before_anything_runs(workshop, monkeypatch, axes):
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)

    with pytest.raises(MissingExtraError, match=r'pip install "dokimos\[optimize\]"'):
        workshop.optimize(axes, model="app.py:writer")
    assert workshop.calls == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    k: 2 ", "    k: &two 2\n    j: *two "),
        ("    prompt: Be brief.\n", "    prompt: |\n        Be brief.\n      # why\n"),
    ],
)
def test_a_value_that_is_not_changed_alone_is_no_axis(workshop, old, new):
    app = workshop.path / "app.py"
    app.write_text(app.read_text().replace("k=1,", "k=1, j=0,"))
    path = workshop.write(BOTH, model="app.py:writer")
    path.write_text(path.read_text().replace(old, new))

    with pytest.raises(ConfigurationError, match="it cannot be changed on its own"):
        workshop.search(path)
    assert workshop.calls == []


FAULTS = [
    ("{numeric: [{path: agent.params.z, type: int, range: [1, 2]}]}", {}, "has no parameter 'z'"),
    ("{numeric: [{path: agent.parms.k, type: int, range: [1, 2]}]}", {}, "Did you mean 'params'?"),
    ("{numeric: [{path: agent.params.k, type: int, range: [2, 1]}]}", {}, "must be smaller than the second"),
    ("{numeric: [{path: agent.params.k, type: int, range: [1, 2.5]}]}", {}, "two whole numbers"),
    ("{numeric: [{path: agent.params.k, type: categorical, range: []}]}", {}, "at least one value"),
    ("{numeric: [{path: evaluations.model, type: int, range: [1, 2]}]}", {}, "part of what is tested"),
    ("{numeric: [{path: model.temperature, type: int, range: [0, 1]}]}", {}, "no 'model'"),
    ("{textual: [{path: agent.params.k}]}", {"model": "app.py:writer"}, "there is no text"),
    ("{textual: [{path: agent.params.prompt}]}", {}, "needs a model that rewrites it"),
    ("{}", {}, "there is nothing to optimize"),
    (
        "{numeric: [{path: agent.params.k, type: int, range: [1, 2]}]}",
        {"loss_": 1},
        "there is no key 'loss_'",
    ),
    ("{numeric: [{path: agent.params.k, type: int, range: [1, 2]}]}", {"holdout": 1}, "less than 1"),
    ("{numeric: [{path: execution.parallel_test_cases, type: int, range: [0, 2]}]}", {}, "0 is not allowed"),
]


@pytest.mark.parametrize(("axes", "settings", "why"), FAULTS)
def test_a_fault_is_told_with_its_line_before_anything_runs(workshop, axes, settings, why):
    head = workshop.head.replace("evaluations:", "execution: {parallel_test_cases: 1}\nevaluations:")

    with pytest.raises(ConfigurationError, match=r"agent\.yaml:\d+:\d+: ") as refused:
        workshop.optimize(axes, head=head, **settings)

    assert why in str(refused.value)
    assert workshop.calls == []


def test_a_byte_order_mark_stays_in_the_best_suite(workshop):
    path = workshop.write(BOTH, model="app.py:writer", max_cycles=1)
    path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())

    optimized = workshop.search(path)

    best = optimized.best_file.read_bytes()
    assert optimized.state.has_improved
    assert best.startswith(codecs.BOM_UTF8 + b"# The suite of the sums.\n")
    assert best.count(codecs.BOM_UTF8) == 1


@pytest.mark.parametrize("axes", ["", "axes:", "axes: {}", "axes: {numeric: []}"])
def test_a_suite_without_axes_runs_and_only_optimizing_it_needs_some(workshop, axes):
    path = workshop.path / "agent.yaml"
    path.write_text(
        f"""
name: a suite
agent: {{callable: "app:answer", params: {{k: 10}}}}
evaluations:
  metrics: [{{type: standard, metric: equality}}]
  optimizer:
    loss: {{equality: 1}}
    {axes}
test_cases: [{{input: number 7, ground_truth: 7}}]
"""
    )

    assert load_suite(path).experiment().run(journal=False, progress=False).pass_rate == 1.0
    with pytest.raises(ConfigurationError, match=r"agent.yaml:\d+:\d+: .*there is nothing to optimize"):
        optimize_suite(path)

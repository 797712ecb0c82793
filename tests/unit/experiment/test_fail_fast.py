"""Stopping at the first failure, and going on later."""

import contextlib

import pytest

from dokimos import Dataset, Example, Experiment
from dokimos._core.results import RunStatus
from dokimos.errors import ConfigurationError, TooManyErrors
from dokimos.evaluators import ExactMatch
from dokimos.experiment._run_loading import load_run


def experiment(answer, **settings):
    examples = [Example.of(str(n), "right", id=f"case-{n}") for n in range(6)]
    return Experiment(Dataset(examples, name="d"), answer, [ExactMatch()], **settings)


def wrong_at(*numbers):
    return lambda text: "wrong" if int(text) in numbers else "right"


def run(plan, **options):
    return plan.run(progress=False, **options)


def test_a_run_stops_at_the_first_failure_and_says_what_is_left(tmp_path):
    result = run(experiment(wrong_at(2, 4)), fail_fast=True, run_dir=tmp_path)

    assert result.status is RunStatus.STOPPED
    assert [item.key for item in result.item_results] == ["case-0", "case-1", "case-2"]
    assert result.warnings[0].startswith(
        "Stopped at the first failure, 'case-2'. 3 items were not run: 'case-3', 'case-4', 'case-5'. To"
    )
    assert result.metadata["notRun"] == ["case-3", "case-4", "case-5"]


def test_a_stored_run_says_what_is_left_until_it_has_been_run(tmp_path):
    plan = experiment(wrong_at(2))
    first = run(plan, fail_fast=True, run_dir=tmp_path)

    stored = load_run(tmp_path / first.run_id)
    run(plan, run_dir=tmp_path, resume=first.run_id)

    assert stored.metadata == first.metadata
    assert stored.metadata["notRun"] == ["case-3", "case-4", "case-5"]
    assert "notRun" not in load_run(tmp_path / first.run_id).metadata


def test_failures_that_are_known_do_not_stop_a_resumed_run(tmp_path):
    plan = experiment(wrong_at(2, 4))
    first = run(plan, fail_fast=True, run_dir=tmp_path)

    again = run(plan, fail_fast=True, run_dir=tmp_path, resume=first.run_id)
    assert "'case-4'" in again.warnings[0]
    assert again.total_count == 5

    rest = run(plan, run_dir=tmp_path, resume=first.run_id)
    assert (rest.status, rest.total_count, rest.fail_count) == (RunStatus.COMPLETED, 6, 2)


def test_a_failure_of_the_last_item_is_no_stop():
    result = run(experiment(wrong_at(5)), fail_fast=True, journal=False)

    assert (result.status, result.warnings) == (RunStatus.COMPLETED, ())
    assert "notRun" not in result.metadata


def test_a_failure_in_the_first_repeat_leaves_the_others_out():
    result = run(experiment(wrong_at(5), runs=3), fail_fast=True, journal=False)

    assert (result.status, result.run_count) == (RunStatus.STOPPED, 1)
    assert "6 items were not run in every repeat: 'case-0'" in result.warnings[0]


def test_what_was_left_out_is_not_named_where_the_results_are_not_kept():
    result = run(experiment(wrong_at(2)), fail_fast=True, journal=False, keep_results=False)

    assert result.warnings == ("Stopped at the first failure, 'case-2'.",)
    assert "notRun" not in result.metadata


def test_of_a_shard_only_its_own_items_are_left_out():
    result = run(experiment(wrong_at(1)), fail_fast=True, journal=False, shard=(2, 2))

    assert result.metadata["notRun"] == ["case-3", "case-5"]


def test_names_of_items_that_were_not_run_are_redacted():
    result = run(
        experiment(wrong_at(0)), fail_fast=True, journal=False, redact=lambda text: text.replace("case", "X")
    )

    assert result.metadata["notRun"][0] == "X-1"
    assert "case" not in result.warnings[0]


def test_an_error_counts_as_a_failure():
    def broken(text):
        raise ValueError("no")

    result = run(experiment(broken), fail_fast=True, journal=False)

    assert (result.status, result.error_count, result.total_count) == (RunStatus.STOPPED, 1, 1)


def test_too_many_errors_are_still_an_exception():
    def broken(text):
        raise ValueError("no")

    with pytest.raises(TooManyErrors):
        run(experiment(broken), max_errors=1, journal=False)


@pytest.mark.parametrize("option", [{"fail_fast": True}, {"max_errors": 0}])
def test_no_worker_begins_an_item_after_another_one_has_stopped_the_run(option):
    called = []

    async def task(example):
        called.append(example.id)
        raise ValueError("no answer")

    plan = Experiment(Dataset([Example.of(n, n) for n in range(6)]), task, [ExactMatch()], parallelism=4)
    with contextlib.suppress(TooManyErrors):
        run(plan, journal=False, **option)

    assert len(called) == 1


def test_nothing_stops_where_nothing_fails():
    result = run(experiment(wrong_at()), fail_fast=True, journal=False)

    assert (result.status, result.total_count) == (RunStatus.COMPLETED, 6)


def test_the_option_is_a_yes_or_no():
    with pytest.raises(ConfigurationError, match="fail_fast"):
        run(experiment(wrong_at()), fail_fast="yes", journal=False)

"""What reporters learn when a run begins and ends, what they keep, and how a resumed run continues theirs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from dokimos import Budget, JudgeReply
from dokimos._core.example import Example
from dokimos._core.results import ExperimentResult
from dokimos.datasets._dataset import Dataset, DatasetStream
from dokimos.errors import DatasetError, ReporterError, RunInterrupted, TooManyErrors
from dokimos.evaluators import ExactMatch, LLMJudge
from dokimos.experiment import load_run
from dokimos.experiment._experiment import Experiment
from dokimos.experiment._merging import merge_results
from dokimos.experiment._run_description import Launch
from dokimos.experiment._run_options import RunOptions
from dokimos.experiment._runner import Runner
from dokimos.exporters import load_result, render
from dokimos.reporting import (
    BaseReporter,
    MemoryReporter,
    ReportedItem,
    ReportedStatus,
    ReporterState,
    RunEnd,
    RunHandle,
    RunOutcome,
    RunReporter,
    RunStart,
)

Numbers = Callable[..., Dataset]


class Application:
    """Answers with the question; a test says at which one it is interrupted, and what it answers before."""

    def __init__(self) -> None:
        self.stops_at: str | None = None
        self.is_down = False

    def __call__(self, question: str) -> str:
        if self.is_down:
            raise ConnectionError("down")
        if question == self.stops_at:
            raise KeyboardInterrupt
        return question if self.stops_at is None else f"first {question}"


application = Application()


@pytest.fixture(autouse=True)
def _a_working_application() -> None:
    application.__init__()  # type: ignore[misc]


def echo(question: str) -> str:
    return application(question)


def run(data: Any, reporters: Any, task: Any = echo, **settings: Any) -> ExperimentResult:
    defaults = {"journal": False, "quiet": True, "evaluators": [ExactMatch()]} | settings
    return Experiment(data, task, reporters=reporters, **defaults).run()


class Server(BaseReporter):
    """Creates a run for each repeat at a fake server, once, and upserts items by ordinal and repeat."""

    def __init__(self, runs: dict[str, dict[tuple[int, int], Any]], identity: str = "https://server") -> None:
        self.runs = runs
        self.identity = identity
        self.starts: list[RunStart] = []

    def begin(self, start: RunStart) -> RunHandle:
        self.starts.append(start)
        key = f"run-{start.repeat_index}"
        if key not in start.state:
            id = f"{self.identity}/{len(self.runs)}"
            self.runs[id] = {}
            start.state.keep(key, id)
        id = start.state[key]
        return RunHandle(id, server_run_id=id)

    def report_item(self, handle: RunHandle, item: ReportedItem) -> None:
        self.runs[handle.run_id][item.index, item.repeat_index] = item.actual_output


def test_a_reporter_learns_what_a_repeat_is_about(numbers: Numbers) -> None:
    memory = MemoryReporter()
    result = run(
        numbers(3, topic="sums"),
        memory,
        name="n",
        description="d",
        metadata={"model": "m"},
        runs=2,
        journal=True,
        evaluators=[ExactMatch(threshold=1.0)],
    )
    first, second = (reported.start for reported in memory.runs)
    assert first is not None
    assert second is not None
    assert (first.name, first.description, first.metadata) == ("n", "d", {"model": "m"})
    assert (first.repeat_index, second.repeat_index, first.repeat_count) == (0, 1, 2)
    assert first.run_id == second.run_id == result.run_id
    assert (first.planned_items, first.is_resumed) == (3, False)
    assert first.evaluators == result.evaluators
    (info,) = first.evaluators
    assert (info.name, info.threshold, info.direction) == ("Exact Match", 1.0, "higher_is_better")
    assert info.fingerprint
    assert first.provenance == replace(result.provenance, ended_at=None)


def test_the_run_id_is_one_also_without_a_journal(numbers: Numbers) -> None:
    memory = MemoryReporter()
    result = run(numbers(1), memory, runs=2)
    assert {reported.start.run_id for reported in memory.runs if reported.start} == {result.run_id}


def test_the_items_of_a_shard_are_planned_and_keep_their_places(numbers: Numbers) -> None:
    memory = MemoryReporter()
    run(numbers(5), memory, shard=(2, 2))
    [reported] = memory.runs
    assert reported.start is not None
    assert (reported.start.planned_items, reported.start.provenance.shard) == (2, "2/2")
    assert [item.index for item in reported.items] == [1, 3]


def test_how_many_items_a_stream_has_is_not_known(numbers: Numbers) -> None:
    memory = MemoryReporter()
    run(DatasetStream(lambda: numbers(2)), memory)
    assert memory.runs[0].start is not None
    assert memory.runs[0].start.planned_items is None


def test_evaluators_that_are_chosen_for_each_example_are_known_at_the_end(numbers: Numbers) -> None:
    memory = MemoryReporter()
    run(numbers(2), memory, evaluators=lambda example: [ExactMatch(name=f"for {example.id}")])
    [reported] = memory.runs
    assert reported.start is not None
    assert reported.end is not None
    assert reported.start.evaluators == ()
    assert [info.name for info in reported.end.evaluators] == ["for n0", "for n1"]


def test_the_fingerprint_tells_of_another_prompt_judge_or_setting(numbers: Numbers) -> None:
    class Judge:
        def __init__(self, identity: str) -> None:
            self.identity = identity

        async def complete(self, prompt: str, *, schema: object = None) -> JudgeReply:
            return JudgeReply('{"score": 1, "reason": "It is."}')

    def fingerprint(**settings: Any) -> str:
        memory = MemoryReporter()
        values = {"name": "j", "criteria": "Is it right?", "judge": Judge("small"), **settings}
        run(numbers(1), memory, evaluators=[LLMJudge(**values)])
        assert memory.runs[0].start is not None
        return memory.runs[0].start.evaluators[0].fingerprint

    others = [{"criteria": "Is it polite?"}, {"judge": Judge("large")}, {"threshold": 0.9}]
    assert len({fingerprint(), fingerprint(), *(fingerprint(**one) for one in others)}) == 4


def test_items_carry_their_place_and_repeat(numbers: Numbers) -> None:
    memory = MemoryReporter()
    result = run(numbers(2), memory, runs=2, parallelism=2)
    places = [sorted((item.index, item.repeat_index) for item in reported.items) for reported in memory.runs]
    assert places == [[(0, 0), (1, 0)], [(0, 1), (1, 1)]]
    assert not any(item.was_reported for reported in memory.runs for item in reported.items)
    item = next(item for item in memory.runs[1].items if item.index == 1)
    assert isinstance(item, ReportedItem)
    assert item == result.runs[1].item_results[1]
    assert result.runs[1].item_results[1] == item
    assert item != result.runs[1].item_results[0]
    assert item != "n1"


def test_the_end_has_counts(numbers: Numbers) -> None:
    memory = MemoryReporter()
    result = run(numbers(3), memory, lambda question: "1")
    end = memory.runs[0].end
    assert end is not None
    assert (end.outcome, end.status, end.error) == (RunOutcome.FINISHED, ReportedStatus.SUCCESS, None)
    assert end.summary == result.runs[0].summary
    assert (end.summary.total, end.summary.passed, end.summary.failed) == (3, 1, 2)
    assert end.evaluators == result.evaluators


def end_of(memory: MemoryReporter) -> RunEnd:
    [reported] = memory.runs
    assert reported.end is not None
    assert reported.status is reported.end.status
    return reported.end


def test_a_run_that_was_stopped_says_why(numbers: Numbers) -> None:
    errors, failure, budget = MemoryReporter(), MemoryReporter(), MemoryReporter()
    application.is_down = True
    with pytest.raises(TooManyErrors):
        run(numbers(5), errors, max_errors=1)
    application.is_down = False
    run(numbers(5), failure, lambda question: "?", fail_fast=True)
    judged = LLMJudge(name="j", criteria="c", judge=lambda prompt: "1")
    run(numbers(5), budget, budget=Budget(max_calls=2), evaluators=[judged])
    for memory, says in (
        (errors, "more items errored than max_errors=1"),
        (failure, "first failure, 'n0'"),
        (budget, "max_calls=2"),
    ):
        end = end_of(memory)
        assert (end.outcome, end.status) == (RunOutcome.STOPPED, ReportedStatus.FAILED)
        assert end.error is not None
        assert says in end.error


def test_a_run_that_broke_off_says_why_and_hides_what_is_to_be_redacted() -> None:
    def rows() -> Any:
        yield Example.of("a", "a")
        raise OSError("secret-share is gone")

    memory = MemoryReporter()
    with pytest.raises(DatasetError):
        run(DatasetStream(rows), memory, redact=lambda text: text.replace("secret", "***"))
    end = end_of(memory)
    assert end.outcome is RunOutcome.FAILED
    assert end.error is not None
    assert "***-share is gone" in end.error
    assert "secret" not in end.error


def test_an_interrupted_run_is_reported_as_interrupted(numbers: Numbers) -> None:
    application.stops_at = "2"
    memory = MemoryReporter()
    with pytest.raises(RunInterrupted):
        run(numbers(4), memory)
    end = end_of(memory)
    assert (end.outcome, end.status, end.error) == (RunOutcome.INTERRUPTED, ReportedStatus.CANCELLED, None)


class OldReporter:
    """Has the five methods that every reporter had, and helpers of its own."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def start_run(self, name: str, metadata: Mapping[str, Any]) -> RunHandle:
        self.seen.append((name, dict(metadata)))
        return RunHandle("old")

    def report_item(self, handle: RunHandle, item: Any) -> None:
        self.seen.append(item.index)

    def complete_run(self, handle: RunHandle, status: ReportedStatus) -> None:
        self.seen.append(status)

    def flush(self) -> None:
        self.seen.append("flush")

    def close(self) -> None:
        self.seen.append("close")


def test_a_reporter_with_the_old_methods_works_unchanged(numbers: Numbers) -> None:
    old = OldReporter()
    result = run(numbers(2), old, name="n", metadata={"model": "m"}, auto_close_reporters=True)
    assert result.warnings == ()
    assert old.seen == [("n", {"model": "m"}), 0, 1, ReportedStatus.SUCCESS, "flush", "close"]


def test_a_reporter_may_have_only_the_new_methods(numbers: Numbers) -> None:
    class New:
        def __init__(self) -> None:
            self.seen: list[object] = []

        def begin(self, start: RunStart) -> RunHandle:
            self.seen.append(start.name)
            return RunHandle("new")

        def report_item(self, handle: RunHandle, item: ReportedItem) -> None:
            self.seen.append((item.index, item.repeat_index))

        def end(self, handle: RunHandle, end: RunEnd) -> None:
            self.seen.append(end.outcome)

        def flush(self) -> None: ...

        def close(self) -> None: ...

    new = New()
    assert isinstance(new, RunReporter)
    assert run(numbers(1), [new], name="n").warnings == ()
    assert new.seen == ["n", (0, 0), "finished"]


def test_a_mock_with_the_old_methods_is_called_by_them(numbers: Numbers) -> None:
    mock = Mock()
    mock.start_run.return_value = RunHandle("mock")
    assert run(numbers(1), [mock]).warnings == ()
    assert mock.complete_run.call_args.args == (RunHandle("mock"), ReportedStatus.SUCCESS)
    assert not mock.begin.called


def test_a_reporter_without_a_handle_from_begin_is_named(numbers: Numbers) -> None:
    class Forgetful(BaseReporter):
        def begin(self, start: RunStart) -> Any:
            return None

    [warning] = run(numbers(1), Forgetful()).warnings
    assert "begin() must return a RunHandle, not NoneType" in warning


def interrupted(data: Dataset, reporter: Any, at: str, **settings: Any) -> ExperimentResult:
    application.stops_at = at
    with pytest.raises(RunInterrupted):
        run(data, reporter, journal=True, **settings)
    application.stops_at = None
    [folder] = Path(".dokimos/runs").iterdir()
    return load_run(folder)


def test_a_resumed_run_continues_the_run_on_the_server(numbers: Numbers) -> None:
    runs: dict[str, Any] = {}
    before = interrupted(numbers(4), Server(runs), "2")
    assert before.server_run_ids == ("https://server/0",)
    server = Server(runs)
    result = run(numbers(4), server, journal=True, resume=before.run_id)
    assert [start.is_resumed for start in server.starts] == [True]
    assert server.starts[0].run_id == before.run_id
    assert runs == {"https://server/0": {(0, 0): "first 0", (1, 0): "first 1", (2, 0): "2", (3, 0): "3"}}
    assert result.server_run_ids == before.server_run_ids


def test_a_resumed_run_says_which_items_were_reported(numbers: Numbers) -> None:
    before = interrupted(numbers(4), MemoryReporter(), "2", runs=2)
    memory = MemoryReporter()
    run(numbers(4), memory, journal=True, runs=2, resume=before.run_id)
    flags = [[item.was_reported for item in reported.items] for reported in memory.runs]
    assert flags == [[True, True, False, False], [False] * 4]


def test_a_retried_item_is_one_that_was_reported(numbers: Numbers) -> None:
    application.is_down = True
    before = run(numbers(1), [], journal=True)
    application.is_down = False
    memory = MemoryReporter()
    run(numbers(1), memory, journal=True, resume=before.run_id, retry_errors=True)
    [item] = memory.runs[0].items
    assert (item.was_reported, item.success) == (True, True)


def test_repeats_have_runs_of_their_own_that_survive_save_and_load(numbers: Numbers) -> None:
    result = run(numbers(2), Server({}), runs=2, journal=True)
    ids = ("https://server/0", "https://server/1")
    assert result.server_run_ids == ids
    assert [repeat.server_run_ids for repeat in result.runs] == [ids[:1], ids[1:]]
    assert load_result(render(result, "json")).server_run_ids == ids
    assert load_run(Path(".dokimos/runs") / str(result.run_id)).server_run_ids == ids
    assert run(numbers(2), [], runs=2, journal=True, resume=result.run_id).server_run_ids == ids


def test_without_a_server_there_are_no_ids(numbers: Numbers) -> None:
    result = run(numbers(1), MemoryReporter())
    assert result.server_run_ids == ()
    assert "erverRunIds" not in render(result, "json")


def test_merged_shards_are_in_the_runs_of_all(numbers: Numbers) -> None:
    runs: dict[str, Any] = {}
    shards = [run(numbers(4), Server(runs), shard=(number, 2)) for number in (1, 2)]
    merged = merge_results(shards)
    assert merged.server_run_ids == ("https://server/0", "https://server/1")
    assert {place for items in runs.values() for place in items} == {(index, 0) for index in range(4)}


def test_what_is_scored_again_or_filtered_is_not_what_the_server_has(numbers: Numbers) -> None:
    result = run(numbers(2), Server({}))
    assert Experiment.rescore(result, ExactMatch(threshold=0.5)).server_run_ids == ()
    assert result.filter(lambda item: item.index == 0).server_run_ids == ()


def test_two_servers_keep_their_own_runs(numbers: Numbers) -> None:
    near: dict[str, Any] = {}
    far: dict[str, Any] = {}
    servers = [Server(near, "https://near"), Server(far, "https://far")]
    before = interrupted(numbers(2), servers, "1")
    assert before.server_run_ids == ("https://near/0", "https://far/0")
    result = run(numbers(2), servers[::-1], journal=True, resume=before.run_id)
    assert result.server_run_ids == before.server_run_ids
    assert [len(items) for items in (*near.values(), *far.values())] == [2, 2]


def test_a_resumed_run_begins_anew_at_another_server(numbers: Numbers) -> None:
    before = interrupted(numbers(2), Server({}, "https://old"), "1")
    runs: dict[str, Any] = {}
    result = run(numbers(2), Server(runs, "https://new"), journal=True, resume=before.run_id)
    assert len(runs["https://new/0"]) == 2
    assert result.server_run_ids == ("https://old/0", "https://new/0")


def test_reporters_of_one_class_do_not_share_what_they_keep(numbers: Numbers) -> None:
    class Keeper(BaseReporter):
        def __init__(self, value: int) -> None:
            self.value = value
            self.found: object = None

        def begin(self, start: RunStart) -> RunHandle:
            self.found = start.state.get("value")
            start.state.keep("value", self.value)
            return super().begin(start)

    before = run(numbers(1), [Keeper(1), Keeper(2)], journal=True)
    keepers = [Keeper(3), Keeper(4)]
    run(numbers(1), keepers, journal=True, resume=before.run_id)
    assert [keeper.found for keeper in keepers] == [1, 2]


def test_what_is_kept_is_on_disk_when_keep_returns(numbers: Numbers) -> None:
    found: list[str] = []

    class Keeper(BaseReporter):
        def begin(self, start: RunStart) -> RunHandle:
            start.state.keep("id", {"täg": [1, None, "\ud800"]})
            [folder] = Path(".dokimos/runs").iterdir()
            found.append((folder / "journal.jsonl").read_text(encoding="utf-8"))
            assert start.state["id"] == {"täg": [1, None, "\ud800"]}
            return super().begin(start)

    result = run(numbers(1), Keeper(), journal=True)
    assert result.warnings == ()
    assert '"keep"' in found[0]


def test_what_is_kept_lasts_as_long_as_a_run_without_journal(numbers: Numbers) -> None:
    runs: dict[str, Any] = {}

    class OneRun(Server):
        def begin(self, start: RunStart) -> RunHandle:
            return super().begin(replace(start, repeat_index=0))

    assert run(numbers(1), OneRun(runs), runs=2).server_run_ids == ("https://server/0",)
    assert runs == {"https://server/0": {(0, 0): "0", (0, 1): "0"}}
    assert run(numbers(1), OneRun(runs)).server_run_ids == ("https://server/1",)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("", 1, "keeps values under a text, not ''"),
        (3, 1, "keeps values under a text, not 3"),
        ("a", float("nan"), "is not JSON"),
        ("a", {1, 2}, "is not JSON"),
        ("a", object(), "is not JSON"),
    ],
)
def test_what_cannot_be_kept_is_refused(key: Any, value: Any, says: str) -> None:
    state = ReporterState()
    with pytest.raises(ReporterError, match=says):
        state.keep(key, value)
    assert dict(state) == {}


def test_a_value_is_kept_as_a_resumed_run_reads_it() -> None:
    state, value = ReporterState(), {"ids": (1, 2)}
    state.keep("a", value)
    assert state == {"a": {"ids": [1, 2]}}
    assert repr(state) == "ReporterState({'a': {'ids': [1, 2]}})"


def test_nothing_can_be_kept_after_the_run(numbers: Numbers) -> None:
    states: list[ReporterState] = []

    class Late(BaseReporter):
        def begin(self, start: RunStart) -> RunHandle:
            states.append(start.state)
            return super().begin(start)

    run(numbers(1), Late(), journal=True)
    with pytest.raises(ReporterError, match="The run has ended"):
        states[0].keep("a", 1)


def test_several_threads_keep_values(numbers: Numbers) -> None:
    class Busy(BaseReporter):
        identity = "Busy"

        def begin(self, start: RunStart) -> RunHandle:
            threads = [threading.Thread(target=start.state.keep, args=(f"k{n}", n)) for n in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return super().begin(start)

    before = run(numbers(1), Busy(), journal=True)
    memory = MemoryReporter()
    memory.identity = "Busy"  # type: ignore[attr-defined]
    run(numbers(1), memory, journal=True, resume=before.run_id)
    assert memory.runs[0].start is not None
    assert dict(memory.runs[0].start.state) == {f"k{n}": n for n in range(8)}


def test_a_damaged_line_about_reporters_is_named_and_does_no_harm(numbers: Numbers) -> None:
    before = run(numbers(2), Server({}), journal=True)
    journal = Path(".dokimos/runs") / str(before.run_id) / "journal.jsonl"
    lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    places = [number for number, line in enumerate(lines) if '"t":"keep"' in line or '"t":"server"' in line]
    for place in places:
        lines[place] = lines[place].replace("https", "nttps")
    journal.write_text("".join(lines), encoding="utf-8")
    server = Server(runs := {})
    result = run(numbers(2), server, journal=True, resume=before.run_id)
    assert any("could not be read were ignored: 1, 2" in warning for warning in result.warnings)
    assert result.server_run_ids == tuple(runs)


def test_an_identity_that_raises_is_not_the_end(numbers: Numbers) -> None:
    class Odd(MemoryReporter):
        @property
        def identity(self) -> str:
            raise OSError("no address")

    odd = Odd()
    assert run(numbers(1), odd).warnings == ()
    assert len(odd.runs[0].items) == 1


def test_the_source_of_the_data_set_and_the_build_are_in_the_provenance(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD", "BITBUCKET_BUILD_NUMBER", "BUILDKITE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"CIRCLECI": "true", "CIRCLE_BRANCH": "secret/x", "CIRCLE_PR_NUMBER": "7"}.items():
        monkeypatch.setenv(name, value)
    numbers(2).save("numbers.jsonl")
    memory = MemoryReporter()
    result = run(Dataset.load("numbers.jsonl"), memory, redact=lambda text: text.replace("secret", "***"))
    found = result.provenance
    assert (found.dataset_uri, found.dataset_version) == ("numbers.jsonl", None)
    assert (found.git_branch, found.pull_request, found.trigger) == ("***/x", "7", "pull_request")
    assert memory.runs[0].start is not None
    assert memory.runs[0].start.provenance.git_branch == "***/x"


def test_the_sample_of_an_estimate_is_not_reported(numbers: Numbers) -> None:
    memory = MemoryReporter()
    options = RunOptions(journal=False, quiet=True, auto_close_reporters=True)
    plan = Experiment(numbers(2), echo, [ExactMatch()], reporters=[memory])
    result = Runner(plan, options, launch=Launch(target="evals.py", is_sample=True)).run_sync()
    assert result.pass_count == 2
    assert memory.runs == []
    assert not memory.closed

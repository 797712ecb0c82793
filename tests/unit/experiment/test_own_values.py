"""What a task returns is what is scored and stored, whatever anybody does to it afterwards."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dokimos import (
    AgentTrace,
    ConversationTrajectory,
    Dataset,
    EvalTestCase,
    Evaluator,
    Example,
    Experiment,
    ExperimentResult,
    Message,
    Score,
    TaskResult,
    ToolCall,
)
from dokimos.evaluators import ExactMatch, FunctionEvaluator, evaluator
from dokimos.exporters._base import render


def dataset() -> Dataset:
    return Dataset([Example.of(name, name, id=name) for name in ("a", "b", "c")])


class Kept:
    """An agent that goes on using what it returned."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.steps: list[str] = []
        self.grouped: defaultdict[str, list[str]] = defaultdict(list)

    def the_dict(self, example: Example) -> Any:
        self.state["output"] = example.input
        return self.state

    def a_list_in_a_fresh_dict(self, example: Example) -> Any:
        self.steps[:] = [str(example.input)]
        return {"output": example.input, "steps": self.steps}

    def a_task_result(self, example: Example) -> Any:
        self.the_dict(example)
        return TaskResult(self.state)

    def a_tuple(self, example: Example) -> Any:
        self.steps[:] = [str(example.input)]
        return {"output": example.input, "steps": (1, self.steps)}

    def an_agent_trace(self, example: Example) -> Any:
        self.steps[:] = [str(example.input)]
        return AgentTrace((ToolCall("look_up", {"words": self.steps}),), example.input)

    def a_conversation(self, example: Example) -> Any:
        self.steps[:] = [str(example.input)]
        call = ToolCall("look_up", {"words": self.steps})
        return ConversationTrajectory((Message.assistant(str(example.input), [call]),))

    def a_defaultdict(self, example: Example) -> Any:
        self.grouped["steps"][:] = [str(example.input)]
        self.grouped["output"] = example.input  # type: ignore[assignment]
        return self.grouped

    def a_list(self, example: Example) -> Any:
        self.steps[:] = [str(example.input)]
        return self.steps

    async def the_dict_later(self, example: Example) -> Any:
        return self.the_dict(example)


KEPT = [name for name in vars(Kept) if not name.startswith("_")]


@pytest.mark.parametrize("name", KEPT)
def test_an_agent_that_keeps_what_it_returned_does_not_change_another_item(name: str) -> None:
    agent = Kept()
    result = Experiment(dataset(), getattr(agent, name), [ExactMatch()]).run(journal=False)
    agent.state["output"] = agent.steps[:] = "changed"
    for item in result.runs[0].item_results:
        assert str(item.example.id) in str(item.actual_outputs)
        assert "changed" not in str(item.actual_outputs)
        assert len({other for other in "abc" if f"'{other}'" in str(item.actual_outputs)}) == 1


def test_the_report_the_journal_and_the_evaluators_saw_the_same_output(tmp_path: Path) -> None:
    seen: dict[str | None, str] = {}

    @evaluator
    def note(case: EvalTestCase) -> float:
        seen[case.id] = str(case.actual_outputs["output"])
        return 1.0

    result = Experiment(dataset(), Kept().a_list, [note]).run(run_dir=tmp_path)
    assert seen == {"a": "['a']", "b": "['b']", "c": "['c']"}
    report = json.loads(render(result, "json"))["items"]
    assert [item["actualOutput"] for item in report] == ['["a"]', '["b"]', '["c"]']
    lines = next(tmp_path.glob("*/journal.jsonl")).read_text().splitlines()
    stored = [json.loads(line) for line in lines]
    assert [line["o"]["output"] for line in stored if line["t"] == "item"] == [["a"], ["b"], ["c"]]


class Pair(NamedTuple):
    text: str
    words: list[str]


@pytest.mark.parametrize(
    "value",
    [Pair("x", ["y"]), OrderedDict(output="x", more=["y"]), Counter(x=2), {"a": (1, {2, 3})}],
    ids=lambda value: type(value).__name__,
)
def test_outputs_keep_their_types(value: Any) -> None:
    result = Experiment(Dataset([Example.of("x")]), lambda example: {"output": value}, [ExactMatch()]).run(
        journal=False
    )
    output = result.runs[0].item_results[0].actual_outputs["output"]
    assert output == value
    assert type(output) is type(value)


def test_other_objects_stay_the_same_objects() -> None:
    client = object()
    task = Experiment(Dataset([Example.of("x")]), lambda example: {"client": client}, [ExactMatch()])
    assert task.run(journal=False).runs[0].item_results[0].actual_outputs["client"] is client


def run_with_nested_input(task: Callable[[Example], Any], **options: Any) -> ExperimentResult:
    inputs = {"input": "q", "history": ["first"]}
    example = Example(inputs, {"output": "done", "words": []}, metadata={"tags": ["t"]}, id="x")
    return Experiment(Dataset([example]), task, [ExactMatch()], **options).run(journal=False)


@pytest.mark.parametrize("runs", [1, 3])
def test_a_task_that_changes_its_example_changes_neither_the_report_nor_the_next_repeat(runs: int) -> None:
    seen = []

    def task(example: Example) -> str:
        seen.append((list(example.inputs), list(example.inputs["history"])))
        example.inputs["history"].append("second")
        example.inputs["extra"] = "x"  # type: ignore[index]
        example.expected_outputs["output"] = "whatever I say"  # type: ignore[index]
        example.metadata["tags"].clear()
        return "done"

    result = run_with_nested_input(task, runs=runs)
    assert seen == [(["input", "history"], ["first"])] * runs
    for run in result.runs:
        example = run.item_results[0].example
        assert example.inputs == {"input": "q", "history": ["first"]}
        assert example.expected_outputs == {"output": "done", "words": []}
        assert example.metadata == {"tags": ["t"]}
        assert run.item_results[0].success is True


def test_each_attempt_gets_the_example_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dokimos.experiment._task_calls.FIRST_RETRY_SECONDS", 0.0)
    seen = []

    def task(example: Example) -> str:
        seen.append(list(example.inputs["history"]))
        example.inputs["history"].append("again")
        if len(seen) == 1:
            raise RuntimeError("not yet")
        return "done"

    example = Example({"input": "q", "history": []}, {"output": "done"})
    Experiment(Dataset([example]), task, [ExactMatch()]).run(journal=False, retries=1)
    assert seen == [[], []]
    assert example.inputs["history"] == []


@dataclass(frozen=True, kw_only=True)
class Meddler(Evaluator):
    """Changes whatever it can reach."""

    def score(self, case: EvalTestCase) -> float:
        meddle(case)
        return 0.0


@dataclass(frozen=True, kw_only=True)
class AsyncMeddler(Evaluator):
    async def score(self, case: EvalTestCase) -> float:
        meddle(case)
        return 0.0


@dataclass(frozen=True, kw_only=True)
class BlockingMeddler(Meddler):
    blocking = True


@dataclass(frozen=True, kw_only=True)
class MeddlingMatch(ExactMatch):
    """One of ours, changed by its user."""

    def score(self, case: EvalTestCase) -> Any:
        meddle(case)
        return super().score(case)


def meddle(case: EvalTestCase) -> float:
    for part in (case.inputs, case.actual_outputs, case.expected_outputs, case.metadata):
        part.get("list", []).append("meddled")
        part["output"] = "meddled"  # type: ignore[index]
    return 0.0


async def meddle_async(case: EvalTestCase) -> float:
    return meddle(case)


def meddle_with_parts(outputs: Any, expected_outputs: Any, metadata: Any, inputs: Any) -> float:
    return meddle(EvalTestCase(inputs, outputs, expected_outputs=expected_outputs, metadata=metadata))


MEDDLERS = [
    Meddler(),
    AsyncMeddler(),
    BlockingMeddler(),
    MeddlingMatch(name="Meddling match"),
    FunctionEvaluator(function=meddle),
    FunctionEvaluator(function=meddle_async),
    FunctionEvaluator(function=meddle_with_parts),
]


@pytest.mark.parametrize("meddler", MEDDLERS, ids=lambda meddler: meddler.name)
def test_an_evaluator_that_changes_its_case_changes_it_for_itself_only(meddler: Evaluator) -> None:
    seen = []

    @evaluator
    def witness(case: EvalTestCase) -> float:
        seen.append(repr(case))
        return 1.0

    example = Example(
        {"input": "q", "list": ["i"]}, {"output": "a", "list": ["e"]}, metadata={"list": ["m"]}, id="x"
    )

    def task(example: Example) -> Any:
        return {"output": "a", "list": ["o"]}

    result = Experiment(Dataset([example]), task, [meddler, ExactMatch(), witness], runs=2).run(journal=False)
    for run in result.runs:
        item = run.item_results[0]
        assert item.actual_outputs == {"output": "a", "list": ["o"]}
        assert item.eval_results[1].score == 1.0
        assert (item.example.inputs, item.example.expected_outputs, item.example.metadata) == (
            {"input": "q", "list": ["i"]}, {"output": "a", "list": ["e"]}, {"list": ["m"]},
        )  # fmt: skip
    assert len(seen) == 2
    assert "meddled" not in "".join(seen)


def test_a_function_that_chooses_evaluators_gets_an_example_of_its_own() -> None:
    def choose(example: Example) -> list[Evaluator]:
        example.inputs["input"] = "meddled"  # type: ignore[index]
        return [ExactMatch()]

    result = Experiment(dataset(), lambda example: example.input, choose).run(journal=False)
    assert [item.example.input for item in result.runs[0].item_results] == ["a", "b", "c"]


@dataclass(frozen=True, kw_only=True)
class KeepsItsMetadata(Evaluator):
    def score(self, case: EvalTestCase) -> Score:
        NOTES["words"][:] = [case.actual_output]
        return Score(1.0, metadata=NOTES)


NOTES: dict[str, Any] = {"words": []}


def keeps_its_metadata(case: EvalTestCase) -> Score:
    NOTES["words"][:] = [case.actual_output]
    return Score(1.0, metadata=NOTES)


@pytest.mark.parametrize(
    "chosen", [KeepsItsMetadata(), FunctionEvaluator(function=keeps_its_metadata)], ids=lambda e: e.name
)
def test_the_metadata_of_a_score_stay_those_of_its_item(chosen: Evaluator) -> None:
    result = Experiment(dataset(), lambda example: example.input, [chosen]).run(journal=False)
    words = [item.eval_results[0].metadata["words"] for item in result.runs[0].item_results]
    assert words == [["a"], ["b"], ["c"]]


def test_recorded_outputs_are_not_changed_by_evaluators() -> None:
    from dokimos.datasets._answer_replay import recorded_task

    example = Example({"input": "q"}, actual_outputs={"output": "a", "list": []})
    result = Experiment(Dataset([example]), recorded_task(), [Meddler()], runs=2).run(journal=False)
    assert example.actual_outputs == {"output": "a", "list": []}
    assert result.runs[1].item_results[0].actual_outputs == {"output": "a", "list": []}


def test_a_rescored_result_leaves_the_old_one_as_it_was() -> None:
    result = Experiment(dataset(), lambda text: {"output": text, "list": []}, [ExactMatch()]).run(
        journal=False
    )
    Experiment.rescore(result, [Meddler()])
    assert [item.actual_outputs["list"] for item in result.runs[0].item_results] == [[], [], []]


class Document:
    """As a class of one's own is written, or one of a framework that has no `to_dict`."""

    def __init__(self, text: str, name: int) -> None:
        self.page_content = text
        self.id = name


def test_a_resumed_run_reads_the_documents_that_its_task_had_returned(tmp_path):
    stops = True

    @evaluator(name="Grounded")
    def grounded(contexts):
        if stops:
            raise KeyboardInterrupt
        return Score(1.0 if contexts == ("30 days",) else 0.0, str(contexts))

    def answer(question):
        return {"output": "Within 30 days.", "contexts": [Document("30 days", 7)]}

    plan = Experiment([Example.of("Refund?")], answer, [grounded], quiet=True, run_dir=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        plan.run()
    stops = False
    [item] = plan.run(resume="latest").item_results
    assert item.eval_results[0].score == 1.0, item.eval_results[0]
    assert item.actual_outputs["contexts"] == [{"text": "30 days", "id": 7}]

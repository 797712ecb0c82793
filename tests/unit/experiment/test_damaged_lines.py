"""Damage of any kind in any line is named, and a run that goes on repeats only what was lost."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import ExperimentResult
from dokimos._core.task_result import TaskResult
from dokimos.datasets._dataset import Dataset
from dokimos.errors import JournalError, RunInterrupted
from dokimos.evaluators._function import evaluator
from dokimos.evaluators._llm.llm_judge import LLMJudge
from dokimos.experiment._experiment import Experiment
from dokimos.experiment._journal_lines import CHECKSUM, read_record, with_checksum
from dokimos.experiment._run_loading import load_run

Numbers = Callable[..., Dataset]
ROOT = Path(".dokimos") / "runs"
DEEP = "[" * 100_000 + "]" * 100_000
KINDS = {"item": 0, "eval": 1, "pass": -2, "done": -1}
"""A line of each kind, by its place in the journal of a run of three items."""


class Calls:
    """A task and an evaluator that remember what they were called for."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.scores: list[str] = []

    def plan(self, data: Dataset) -> Experiment:
        def task(example: Example) -> TaskResult:
            self.tasks.append(str(example.input))
            return TaskResult({"output": example.input}, CallMetrics(3, 4, cost_usd=0.5))

        @evaluator(name="same", blocking=False)
        def same(output: str) -> bool:
            self.scores.append(output)
            return True

        return Experiment(data, task, [same], progress=False)


def journal_of(result: ExperimentResult) -> Path:
    assert result.run_id is not None
    return ROOT / result.run_id / "journal.jsonl"


def rewritten(line: bytes, change: Callable[[dict[str, Any]], object], *, checksum: bool) -> bytes:
    """Change what a line says, as a tool would that knows nothing of checksums, or before there were any."""
    record = json.loads(line)
    if not checksum:
        record.pop(CHECKSUM)
    change(record)
    return json.dumps(record).encode() + b"\n"


def wrong_type(line: bytes, key: str, value: Any, *, checksum: bool) -> bytes:
    return rewritten(line, lambda record: record.__setitem__(key, value), checksum=checksum)


BYTES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda line: line[: len(line) // 2] + b"\n",
    "cut at the front": lambda line: line[len(line) // 2 :],
    "empty": lambda line: b"\n",
    "nul": lambda line: b"\0" * (len(line) - 1) + b"\n",
    "nul inside": lambda line: line[:20] + b"\0" + line[21:],
    "not utf-8": lambda line: line[:20] + b"\xff\xfe" + line[22:],
    "deep": lambda line: DEEP.encode() + b"\n",
    "deep inside": lambda line: line[:-2] + b',"z":' + DEEP.encode() + b"}\n",
    "list": lambda line: b"[" + line[:-1] + b"]\n",
    "text": lambda line: b'"item"\n',
    "number": lambda line: b"1\n",
    "null": lambda line: b"null\n",
    "huge number": lambda line: b'{"t":"item","r":' + b"9" * 5000 + b"}\n",
    "unknown kind": lambda line: b'{"t":"new"}\n',
    "kind of another type": lambda line: b'{"t":["item"]}\n',
    "doubled inside": lambda line: line[:-1] + line,
    "one bit": lambda line: line[:-30] + bytes([line[-30] ^ 1]) + line[-29:],
}
FIELDS = {
    "item": "rihxoem",
    "eval": "riv",
    "pass": ("r", "seen"),
    "done": ("status", "provenance", "warnings"),
}
VALUES: tuple[Any, ...] = (None, True, -1, 1.5, 10**30, "x", "", [], {}, [[]], {"a": 1}, [None])


@pytest.fixture
def whole(numbers: Numbers) -> tuple[Path, list[bytes]]:
    path = journal_of(Calls().plan(numbers(3)).run())
    return path, path.read_bytes().splitlines(keepends=True)


def assert_only_the_damage_is_repeated(
    numbers: Numbers, path: Path, *, tasks: list[str], scores: list[str]
) -> None:
    """Check that the damage is named and that only what was lost is done again."""
    assert any("could not be read were ignored" in warning for warning in load_run(path.parent).warnings)
    calls = Calls()
    result = calls.plan(numbers(3)).run(resume=path.parent.name)
    assert (calls.tasks, calls.scores) == (tasks, scores)
    assert result.pass_count == 3
    assert any("could not be read were ignored" in warning for warning in result.warnings)
    assert load_run(path.parent).pass_count == 3


LOST = {"item": (["0"], ["0"]), "eval": ([], ["0"]), "pass": ([], []), "done": ([], [])}
"""What is done again without a line of a kind: tasks and scores."""


@pytest.mark.parametrize("damage", BYTES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_line_costs_what_it_held(
    numbers: Numbers, whole: tuple[Path, list[bytes]], kind: str, damage: str
) -> None:
    path, lines = whole
    lines[KINDS[kind]] = BYTES[damage](lines[KINDS[kind]])
    path.write_bytes(b"".join(lines))
    tasks, scores = LOST[kind]
    assert_only_the_damage_is_repeated(numbers, path, tasks=tasks, scores=scores)


@pytest.mark.parametrize("checksum", [True, False], ids=["checked", "of an older journal"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_field_of_another_type_is_damage(
    whole: tuple[Path, list[bytes]], kind: str, checksum: bool
) -> None:
    _, lines = whole
    line = lines[KINDS[kind]]
    before = json.loads(line)
    for key in FIELDS[kind]:
        for value in VALUES:
            found = read_record(wrong_type(line, key, value, checksum=checksum))
            if found is not None:  # then it is as good as what was there
                assert not checksum or value == before.get(key)
                assert key in ("x", "o", "v", "m", "e", "provenance", "warnings") or value == before[key]


@pytest.mark.parametrize("key", ["r", "i", "h", "o"])
def test_a_missing_key_is_damage_also_in_an_older_journal(
    numbers: Numbers, whole: tuple[Path, list[bytes]], key: str
) -> None:
    path, lines = whole
    lines[0] = rewritten(lines[0], lambda record: record.pop(key), checksum=False)
    path.write_bytes(b"".join(lines))
    assert_only_the_damage_is_repeated(numbers, path, tasks=["0"], scores=["0"])


def test_a_line_twice_changes_nothing(numbers: Numbers, whole: tuple[Path, list[bytes]]) -> None:
    path, lines = whole
    path.write_bytes(b"".join(line * 2 for line in lines) + lines[0])
    calls = Calls()
    result = calls.plan(numbers(3)).run(resume=path.parent.name)
    assert (calls.tasks, calls.scores, result.pass_count) == ([], [], 3)


def test_lines_that_another_tool_has_written_anew_are_read(
    numbers: Numbers, whole: tuple[Path, list[bytes]]
) -> None:
    path, lines = whole
    path.write_bytes(b"".join(rewritten(line, lambda record: None, checksum=True) for line in lines))
    calls = Calls()
    result = calls.plan(numbers(3)).run(resume=path.parent.name)
    assert (calls.tasks, calls.scores, result.warnings) == ([], [], ())


def test_journals_without_checksums_are_read(numbers: Numbers, whole: tuple[Path, list[bytes]]) -> None:
    path, lines = whole
    path.write_bytes(b"".join(rewritten(line, lambda record: None, checksum=False) for line in lines))
    calls = Calls()
    assert calls.plan(numbers(3)).run(resume=path.parent.name).warnings == ()
    assert (calls.tasks, calls.scores) == ([], [])


def test_a_damaged_hash_is_not_taken_for_another_data_set(
    numbers: Numbers, whole: tuple[Path, list[bytes]]
) -> None:
    path, lines = whole
    hash_ = json.loads(lines[0])["h"].encode()
    lines[0] = lines[0].replace(hash_, hash_[::-1])
    path.write_bytes(b"".join(lines))
    assert_only_the_damage_is_repeated(numbers, path, tasks=["0"], scores=["0"])


def test_random_damage_never_breaks_reading_and_never_changes_what_is_read(
    numbers: Numbers, whole: tuple[Path, list[bytes]]
) -> None:
    path, lines = whole
    content = b"".join(lines)
    original = {item.index: item.actual_output for item in load_run(path.parent).item_results}
    draw = random.Random(7)
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(draw.randint(1, 6)):
            place = draw.randrange(len(damaged))
            match draw.randrange(4):
                case 0:
                    damaged[place] ^= 1 << draw.randrange(8)
                case 1:
                    del damaged[place : place + draw.randint(1, 40)]
                case 2:
                    damaged[place:place] = bytes(draw.randrange(256) for _ in range(draw.randint(1, 9)))
                case _:
                    damaged[place : place + 20] = b"\0" * len(damaged[place : place + 20])
        path.write_bytes(damaged)
        for item in load_run(path.parent).item_results:
            assert item.actual_output == original[item.index]
        result = Calls().plan(numbers(3)).run(resume=path.parent.name)
        assert result.pass_count == 3
        assert result.error_count == 0


def test_a_checksum_is_of_the_bytes_of_its_line() -> None:
    content = b'{"t":"void","names":["\xc3\xa9"]'
    whole = with_checksum(content)
    assert read_record(whole) == json.loads(whole)
    assert read_record(content + b"}\n") == {"t": "void", "names": ["é"]}
    assert read_record(whole.replace(b"\xc3\xa9", b"ee")) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [("task", None), ("evaluators", 5), ("evaluators", [5]), ("sources", 3), ("shard", "x"), ("dataset", 1)],
)
def test_a_damaged_manifest_is_said_to_be_that(
    numbers: Numbers, whole: tuple[Path, list[bytes]], key: str, value: Any
) -> None:
    path, _ = whole
    manifest = path.parent / "run.json"
    tree = json.loads(manifest.read_text())
    tree[key] = value
    manifest.write_text(json.dumps(tree))
    with pytest.raises(JournalError):
        Calls().plan(numbers(3)).run(resume=path.parent.name)


REPLIES: dict[str, Callable[[bytes], bytes]] = {
    **{name: change for name, change in BYTES.items() if name not in ("one bit", "huge number")},
    "reply of another type": lambda line: rewritten_reply(line, "reply", 5),
    "reply without text": lambda line: rewritten_reply(line, "reply", {"text": 5}),
    "prompt of another type": lambda line: rewritten_reply(line, "prompt", []),
    "repeat of another type": lambda line: rewritten_reply(line, "repeat", "x"),
}


def rewritten_reply(line: bytes, key: str, value: Any) -> bytes:
    record = json.loads(line) | {key: value}
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize("damage", REPLIES)
def test_a_damaged_reply_of_a_judge_is_asked_for_again_and_nothing_else_is(
    numbers: Numbers, damage: str
) -> None:
    asked: list[str] = []

    def judge(prompt: str) -> str:
        asked.append(prompt)
        return '{"score": 1, "reason": "right"}'

    def plan() -> Experiment:
        return Experiment(
            numbers(3), lambda text: text, [LLMJudge(criteria="ok", judge=judge)], progress=False
        )

    path = journal_of(plan().run())
    path.write_bytes(b"".join(line for line in path.read_bytes().splitlines(True) if b'"t":"item"' in line))
    calls = path.with_name("calls.jsonl")
    first, *rest = calls.read_bytes().splitlines(keepends=True)
    calls.write_bytes(REPLIES[damage](first) + b"".join(rest))
    asked.clear()
    result = plan().run(resume=path.parent.name)
    assert result.error_count == 0
    assert len(asked) == 1
    assert f"Damaged lines of {calls.resolve()} were ignored: 1." in [
        warning.replace(str(calls), str(calls.resolve())) for warning in result.warnings
    ]


def test_a_run_without_a_journal_says_that_it_cannot_be_resumed(numbers: Numbers) -> None:
    Path(".dokimos").write_text("in the way")

    def task(example: Example) -> str:
        raise KeyboardInterrupt

    result = Calls().plan(numbers(2)).run()
    assert result.run_id is None
    assert any(
        text.startswith("The run cannot be resumed: nothing could be written") for text in result.warnings
    )
    with pytest.raises(RunInterrupted, match="The run cannot be resumed: nothing could be written in"):
        Experiment(numbers(2), task, Calls().plan(numbers(1)).evaluators, progress=False).run()


def test_a_run_whose_journal_failed_on_the_way_says_that_it_cannot_be_resumed(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if b'{"t":"item","r":0,"i":1,' in data:
            raise OSError(28, "No space left on device")
        return real(descriptor, data)

    def task(example: Example) -> str:
        if example.input == "2":
            raise KeyboardInterrupt
        return str(example.input)

    monkeypatch.setattr("dokimos.experiment._run_journal.os.write", full)
    with pytest.raises(RunInterrupted) as stop:
        Experiment(numbers(3), task, Calls().plan(numbers(1)).evaluators, progress=False).run()
    told = str(stop.value)
    assert "The run cannot be resumed: The journal in " in told
    assert "No space left on device" in told
    assert "To continue" not in told
    assert told.endswith(f"dokimos show {stop.value.result.run_id}")
    assert load_run(ROOT / str(stop.value.result.run_id)).total_count == 1

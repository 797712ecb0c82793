"""Provenance tells where a result comes from, and nothing secret; redaction comes before everything."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dokimos._core.example import Example
from dokimos._core.jsonable import jsonable
from dokimos._core.results import ExperimentResult, Score
from dokimos._core.task_result import TaskResult
from dokimos._version import __version__
from dokimos.datasets._dataset import Dataset
from dokimos.datasets._dataset_source import DatasetSource
from dokimos.evaluators._function import evaluator
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment
from dokimos.experiment._run_loading import load_run
from dokimos.experiment._run_provenance import GitState, git_state, scrub_command, source_hash
from dokimos.reporting._memory import MemoryReporter

Numbers = Callable[..., Dataset]
Comparable = Callable[[ExperimentResult], Any]


def echo(example: Example) -> str:
    return example.inputs["input"]


def everything_on_disk() -> str:
    return "".join(path.read_text() for path in Path(".dokimos").rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "argv",
    [
        ["--api-key", "hush"],
        ["--api-key=hush"],
        ["--token=hush", "x"],
        ["--openai-token", "hush"],
        ["--client_secret", "hush"],
        ["--password", "hush"],
        ["OPENAI_API_KEY=hush"],
        ["--url", "https://user:hush@example.org/path"],
        ["--url=https://user:hush@example.org/?token=hush"],
        ["https://example.org/?api_key=hush&page=1"],
        ["--header", "Authorization: Bearer hush"],
        ["--header=Authorization: Bearer hush"],
        ["-e", '{"model": "m", "api_key": "hush"}'],
        ["-H", "X-Api-Key: hush"],
        ["-m", "sk-hush4567890123"],
        ["ghp_hush4567890123"],
        ["--model", "xoxb-hush-0123456789"],
        ["eyJhush0123456789.eyJhush0123456789.hush"],
    ],
)
def test_no_secret_of_the_command_line_is_kept(argv: list[str]) -> None:
    command = scrub_command(["dokimos", "run", *argv])
    assert "hush" not in " ".join(command)
    assert command[:2] == ("dokimos", "run")


def test_the_rest_of_the_command_line_is_kept() -> None:
    argv = ("dokimos", "run", "suite.py:experiment", "-j", "4", "--filter", "topic=refunds", "--name=a b")
    assert scrub_command(argv) == argv


def test_the_option_after_a_secret_one_without_a_value_is_kept() -> None:
    assert scrub_command(["--ask-password", "--runs", "3"]) == ("--ask-password", "--runs", "3")


def test_provenance_says_where_a_result_comes_from(numbers: Numbers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["prog", "--api-key", "hush"])
    data = numbers(3)
    result = Experiment(data, echo, [ExactMatch()], parallelism=2, seed=5, progress=False).run()
    found = result.provenance
    assert found.dokimos_version == __version__
    assert found.python_version == ".".join(map(str, sys.version_info[:3]))
    assert (found.dataset_name, found.dataset_size) == ("numbers", 3)
    assert found.dataset_fingerprint == data.fingerprint
    assert (found.task_name or "").endswith(":echo")
    assert (found.seed, found.parallelism, found.shard) == (5, 2, None)
    assert found.started_at is not None
    assert found.ended_at is not None
    assert found.started_at <= found.ended_at
    assert found.command == ("prog", "--api-key", "***")
    assert result.evaluators[0].registry_name == "exact_match"


def test_nothing_of_the_environment_is_ever_recorded(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_SETTING", "value-of-the-environment")
    result = Experiment(numbers(2), echo, [ExactMatch()], progress=False).run()
    recorded = everything_on_disk() + json.dumps(jsonable(result))
    assert "value-of-the-environment" not in recorded
    assert "SOME_SETTING" not in recorded


def test_the_commit_and_whether_files_differ_from_it_are_known(tmp_path: Path) -> None:
    assert git_state() == GitState()

    def git(*arguments: str) -> None:
        names = ("-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *names, *arguments], check=True, capture_output=True)

    git("init")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "first")
    clean = git_state()
    assert len(clean.commit or "") == 40
    assert clean.dirty is False
    (tmp_path / "untracked").write_text("1")
    assert git_state() == clean
    (tmp_path / "file").write_text("2")
    assert git_state() == replace(clean, dirty=True)


def test_the_source_of_a_partial_is_that_of_its_function() -> None:
    assert source_hash(functools.partial(echo)) == source_hash(echo)
    assert source_hash(functools.partial(echo)) != source_hash(everything_on_disk)
    assert source_hash(len) is None


# Redaction


def hide(text: str) -> str:
    return text.replace("secret", "[hidden]")


def leaky_plan(**settings: Any) -> Experiment:
    data = Dataset(
        [
            Example.of(
                "secret input", "secret expected", id="secret-id", note="secret note", tags=["secret"]
            ),
            Example.of("boom", id="boom"),
        ]
    )

    def task(example: Example) -> TaskResult:
        if echo(example) == "boom":
            raise ValueError("secret message")
        assert echo(example) == "secret input"
        return TaskResult({"output": "secret output", "deep": [{"k": ("secret", 1)}], "bytes": b"x"})

    @evaluator
    def sees_the_original(output: str) -> Score:
        return Score(float(output == "secret output"), "secret reason", metadata={"k": "secret"})

    @evaluator
    def fails(output: str) -> bool:
        raise ValueError("secret failure")

    defaults: dict[str, Any] = {"redact": hide, "progress": False, "metadata": {"owner": "secret owner"}}
    return Experiment(data, task, [sees_the_original, fails], **(defaults | settings))


def test_nothing_unredacted_is_on_disk_in_the_result_or_at_a_reporter() -> None:
    memory = MemoryReporter()
    result = leaky_plan(reporters=memory).run()
    assert "secret" not in everything_on_disk()
    assert "secret" not in json.dumps(jsonable(result))
    assert "secret" not in json.dumps(jsonable([memory.runs[0].items, memory.runs[0].metadata]))
    [first, second] = result.item_results
    assert first.actual_outputs["output"] == "[hidden] output"
    assert first.eval_results[0].score == 1.0
    assert first.example.id == "[hidden]-id"
    assert second.error == "ValueError: [hidden] message"


def test_a_redacted_run_can_be_read_back_and_resumed(comparable: Comparable) -> None:
    whole = leaky_plan().run()
    folder = Path(".dokimos/runs") / (whole.run_id or "")
    assert comparable(load_run(folder)) == comparable(whole)
    again = leaky_plan().run(resume=whole.run_id)
    assert comparable(again) == comparable(whole)


def test_what_was_redacted_before_is_not_redacted_again() -> None:
    def wrap(text: str) -> str:
        return f"<{text}>"

    whole = leaky_plan(redact=wrap).run()
    again = leaky_plan(redact=wrap).run(resume=whole.run_id)
    assert again.item_results[0].actual_outputs["output"] == "<secret output>"
    assert again.item_results[0].eval_results[0].reason == "<secret reason>"
    assert again.item_results[1].error == "<ValueError: secret message>"


@pytest.mark.parametrize("kind", ["raises", "returns None"])
def test_a_redaction_that_fails_lets_nothing_through_and_is_named(kind: str) -> None:
    def broken(text: str) -> Any:
        if "secret" not in text:
            return text
        if kind == "raises":
            raise KeyError("pattern")

    result = leaky_plan(redact=broken).run()
    assert "secret" not in everything_on_disk()
    assert "secret" not in json.dumps(jsonable(result))
    assert result.item_results[0].actual_output == "[could not be redacted]"
    assert result.warnings[-1].startswith("redact ")


def test_the_address_of_the_data_set_is_stored_without_credentials(numbers: Numbers) -> None:
    source = DatasetSource(uri="https://user:hidden-word@host/data.jsonl?sig=hidden-word", version=3)
    data = Dataset(numbers(1).examples, "numbers", source=source)
    result = Experiment(data, echo, [ExactMatch()], quiet=True).run()
    assert (result.provenance.dataset_uri, result.provenance.dataset_version) == (
        "https://host/data.jsonl",
        3,
    )
    assert "hidden-word" not in everything_on_disk() + json.dumps(jsonable(result))
    [folder] = Path(".dokimos/runs").iterdir()
    journal = folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().rpartition(b'{"t":"done"')[0])  # as a killed process leaves it
    killed = load_run(folder).provenance
    assert (killed.dataset_uri, killed.dataset_version) == ("https://host/data.jsonl", 3)

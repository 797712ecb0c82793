"""What holds up the event loop is found, named once, and ended where a time limit says so."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dokimos
from dokimos._core.example import Example
from dokimos._runtime import loop_watch
from dokimos._runtime.code_origin import CodeOrigin, find_code_origin
from dokimos._runtime.concurrency import run_sync
from dokimos.datasets._dataset import Dataset
from dokimos.evaluators._function import evaluator
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment

LONG = 60.0


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(loop_watch, "STALL_SECONDS", 0.2)
    monkeypatch.setattr(loop_watch, "LATE_SECONDS", LONG)


def data(count: int = 3) -> Dataset:
    return Dataset([Example.of(str(i), str(i)) for i in range(count)])


def run(task: Any, *evaluators: Any, **settings: Any) -> Any:
    return Experiment(data(), task, evaluators or [ExactMatch()], **({"progress": False} | settings)).run()


async def quick(example: Example) -> str:
    return str(example.input)


def test_what_blocks_is_named_once_with_file_line_and_function(capfd: pytest.CaptureFixture[str]) -> None:
    async def blocks(example: Example) -> str:
        time.sleep(1)  # five times as long as it takes to be named
        return str(example.input)

    result = run(blocks)
    assert result.pass_count == 3
    [warning] = [text for text in result.warnings if "blocks (" in text]
    assert warning == (
        f"The event loop was blocked for more than 0.2 s by {blocks.__qualname__} ({__file__}, line "
        f"{blocks.__code__.co_firstlineno + 1}). Async code must not block: let it await, or make it a "
        "plain def, which runs in a thread."
    )
    assert capfd.readouterr().err.count(f"! {warning}\n") == 1


def test_an_async_task_that_blocks_for_ever_is_an_error_of_its_item() -> None:
    async def blocks(example: Example) -> str:
        if example.input == "1":
            time.sleep(LONG)
        return str(example.input)

    begun = time.monotonic()
    result = run(blocks, timeout=0.3)
    assert time.monotonic() - begun < LONG / 2
    error = result.item_results[1].error
    assert error.startswith("TimeoutError: ")
    assert f"blocks ({__file__}, line {blocks.__code__.co_firstlineno + 2})" in error
    assert error.endswith("blocked the event loop for more than 0.3 s; the call was broken off")
    assert result.pass_count == 2


@pytest.mark.parametrize("how", ["sleep", "lock", "loop", "future"])
def test_any_way_of_blocking_ends(how: str) -> None:
    from concurrent.futures import Future

    ways: dict[str, Callable[[], Any]] = {
        "sleep": lambda: time.sleep(LONG),
        "lock": lambda: threading.Event().wait(LONG),
        "future": lambda: Future().result(LONG),  # type: ignore[var-annotated]
    }

    async def blocks(example: Example) -> str:
        if example.input == "1":
            while how == "loop":
                pass
            ways[how]()
        return str(example.input)

    result = run(blocks, timeout=0.3)
    assert "blocked the event loop" in result.item_results[1].error
    assert result.pass_count == 2


@pytest.mark.parametrize("kind", ["async", "stays"])
def test_an_evaluator_that_blocks_the_loop_for_ever_is_an_error_of_its_item(kind: str) -> None:
    @evaluator(name="one")
    async def waits(output: str) -> bool:
        if output == "1":
            time.sleep(LONG)
        return True

    @evaluator(name="one", blocking=False)
    def stays(output: str) -> bool:
        if output == "1":
            time.sleep(LONG)
        return True

    result = run(quick, waits if kind == "async" else stays, evaluator_timeout=0.3)
    errors = [item.eval_results[0].error for item in result.item_results]
    assert errors[0] is None
    assert errors[2] is None
    assert "blocked the event loop" in errors[1]


def test_without_a_time_limit_nothing_is_broken_off() -> None:
    async def blocks(example: Example) -> str:
        time.sleep(0.5)
        return str(example.input)

    result = run(blocks)
    assert result.pass_count == 3
    assert sum("blocks (" in warning for warning in result.warnings) == 1


def test_a_loop_that_ticks_is_left_alone() -> None:
    async def waits(example: Example) -> str:
        for _ in range(30):
            await asyncio.sleep(0.01)
        return str(example.input)

    assert not [warning for warning in run(waits, timeout=LONG).warnings if "waits (" in warning]


def test_many_that_block_for_a_short_while_are_not_broken_off() -> None:
    async def blocks(example: Example) -> str:
        for _ in range(2):
            time.sleep(0.1)
            await asyncio.sleep(0)
        return str(example.input)

    result = Experiment(data(24), blocks, [ExactMatch()], parallelism=24, timeout=0.4, progress=False).run()
    assert not [item.error for item in result.item_results if "blocked the event loop" in (item.error or "")]


def test_a_call_that_blocks_in_many_small_steps_is_broken_off() -> None:
    def step() -> None:
        time.sleep(0.01)

    async def blocks(example: Example) -> str:
        while example.input == "1":
            step()
        return str(example.input)

    result = run(blocks, timeout=0.3)
    assert "blocked the event loop" in result.item_results[1].error
    assert result.pass_count == 2


def test_where_it_is_ours_that_blocks_nobody_else_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from dokimos.evaluators._text import Levenshtein

    score = Levenshtein.score

    def find_origin(file: str, module: str) -> CodeOrigin:  # as if the next function came with dokimos
        return CodeOrigin.OURS if file == __file__ else find_code_origin(file, module)

    monkeypatch.setattr(loop_watch, "find_code_origin", find_origin)

    def slow(self: Any, case: Any) -> Any:
        time.sleep(0.6)
        return score(self, case)

    monkeypatch.setattr(Levenshtein, "score", slow)
    [warning] = [text for text in run(quick, Levenshtein()).warnings if "slow (" in text]
    assert "make it a plain def" not in warning


def test_what_swallows_its_error_is_handed_on() -> None:
    ended = threading.Event()
    told: list[str] = []

    def give_up(message: str) -> None:
        told.append(message)
        ended.set()

    def stubborn() -> None:
        while not ended.is_set():
            try:
                ended.wait(LONG)
            except TimeoutError:
                continue

    async def main() -> None:
        with loop_watch.LoopWatch({__file__: 0.2}, give_up):
            stubborn()

    run_sync(main())
    assert told
    assert told[0].endswith("blocked the event loop for more than 0.2 s")
    assert "stubborn" in told[0]


def compile_in(file: str, source: str) -> dict[str, Any]:
    """Return what a source defines; by its file, it is of whoever wrote that file."""
    namespace: dict[str, Any] = {"__name__": "compiled"}
    exec(compile(source, file, "exec"), namespace)
    return namespace


@pytest.mark.parametrize(
    "file",
    [
        f"{Path(dokimos.__file__).parent}_app/x.py",  # beside dokimos, and beginning as its folder does
        "/home/ada/my-site-packages-mirror/x.py",
    ],
)
def test_a_file_of_the_users_is_named_whatever_its_path_resembles(file: str) -> None:
    block = compile_in(file, "import time\ndef block():\n    time.sleep(0.6)\n")["block"]

    async def task(question: str) -> str:
        block()
        return "a"

    assert any("block (" in text and file in text for text in run(task).warnings)


def test_whoever_started_the_loop_is_not_named() -> None:
    ours = compile_in(
        str(Path(dokimos.__file__).parent / "x.py"),
        "import asyncio\n"
        "async def look(watch):\n"
        "    with watch:\n"
        "        await asyncio.sleep(0)\n"
        "        return watch._find_location()\n",
    )
    location = asyncio.run(ours["look"](loop_watch.LoopWatch({})))
    assert location is not None
    assert location.is_built_in

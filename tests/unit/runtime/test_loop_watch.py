"""What holds up the event loop is found, named once, and ended where a time limit says so."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dokimos
from dokimos._core.example import Example
from dokimos._runtime import loop_watch
from dokimos._runtime.code_origin import CodeOrigin, find_code_origin
from dokimos._runtime.concurrency import run_sync
from dokimos._runtime.terminal_text import print_line
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


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], threading.Event]:
    """A function that returns an event for the name of a function: it is set once that is said to block."""
    events: dict[str, threading.Event] = {}

    def tell(line: str) -> None:
        print_line(line)
        for name, event in events.items():
            if f"{name} (" in line:
                event.set()

    monkeypatch.setattr(loop_watch, "print_line", tell)
    return lambda name: events.setdefault(name, threading.Event())


@pytest.fixture
def block_for(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A function that blocks until the watch has looked at it twice, with so many seconds before the first.

    They pass on a clock that only this function moves.
    """
    now = 0.0
    looks = 0
    find = loop_watch.LoopWatch._find_location

    def look(watch: loop_watch.LoopWatch) -> Any:
        nonlocal looks
        looks += 1
        return find(watch)

    def block(seconds: float) -> None:
        nonlocal now
        now += seconds
        seen = looks
        while looks < seen + 2:
            time.sleep(0.001)  # between two looks

    monkeypatch.setattr(loop_watch, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(loop_watch.LoopWatch, "_find_location", look)
    return block


def data(count: int = 3) -> Dataset:
    return Dataset([Example.of(str(i), str(i)) for i in range(count)])


def run(task: Any, *evaluators: Any, **settings: Any) -> Any:
    return Experiment(data(), task, evaluators or [ExactMatch()], **({"progress": False} | settings)).run()


async def quick(example: Example) -> str:
    return str(example.input)


def test_what_blocks_is_named_once_with_file_line_and_function(
    capfd: pytest.CaptureFixture[str], named: Callable[[str], threading.Event]
) -> None:
    is_named = named("blocks")

    async def blocks(example: Example) -> str:
        time.sleep(0.4) if is_named.is_set() else is_named.wait(LONG)
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


def test_an_async_task_that_blocks_for_ever_is_an_error_of_its_item(limits: Any) -> None:
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
def test_any_way_of_blocking_ends(how: str, limits: Any) -> None:
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
def test_an_evaluator_that_blocks_the_loop_for_ever_is_an_error_of_its_item(kind: str, limits: Any) -> None:
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


def test_without_a_time_limit_nothing_is_broken_off(named: Callable[[str], threading.Event]) -> None:
    is_named = named("blocks")

    async def blocks(example: Example) -> str:
        time.sleep(0.4) if is_named.is_set() else is_named.wait(LONG)
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


def test_many_that_block_for_a_short_while_are_not_broken_off(
    limits: Any, block_for: Callable[[float], None]
) -> None:
    async def blocks(example: Example) -> str:
        for _ in range(2):
            block_for(0.1)
            await asyncio.sleep(0)
        return str(example.input)

    result = Experiment(data(8), blocks, [ExactMatch()], parallelism=8, timeout=0.4, progress=False).run()
    assert any("blocked for more than 0.2 s" in warning for warning in result.warnings)
    assert not [item.error for item in result.item_results if "blocked the event loop" in (item.error or "")]


def test_a_call_that_blocks_in_many_small_steps_is_broken_off(limits: Any) -> None:
    def step() -> None:
        time.sleep(0.01)

    async def blocks(example: Example) -> str:
        while example.input == "1":
            step()
        return str(example.input)

    result = run(blocks, timeout=0.3)
    assert "blocked the event loop" in result.item_results[1].error
    assert result.pass_count == 2


def test_where_it_is_ours_that_blocks_nobody_else_is_named(
    monkeypatch: pytest.MonkeyPatch, named: Callable[[str], threading.Event]
) -> None:
    from dokimos.evaluators._text import Levenshtein

    score = Levenshtein.score

    def find_origin(file: str, module: str) -> CodeOrigin:  # as if the next function came with dokimos
        return CodeOrigin.OURS if file == __file__ else find_code_origin(file, module)

    monkeypatch.setattr(loop_watch, "find_code_origin", find_origin)

    def slow(self: Any, case: Any) -> Any:
        named("slow").wait(LONG)
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
def test_a_file_of_the_users_is_named_whatever_its_path_resembles(
    file: str, named: Callable[[str], threading.Event]
) -> None:
    block = compile_in(file, "def block(is_named, seconds):\n    is_named.wait(seconds)\n")["block"]

    async def task(question: str) -> str:
        block(named("block"), LONG)
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

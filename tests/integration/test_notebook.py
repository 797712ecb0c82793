"""Runs in a notebook, through a real kernel of Jupyter."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs nbclient and ipykernel")
nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel")

BEGIN = """
import asyncio
from dokimos import Dataset, Example, evaluate, evaluate_async
from dokimos.evaluators import ExactMatch

examples = Dataset([Example.of(str(n), "0") for n in range(12)], name="numbers")

async def answer(example: Example):
    await asyncio.sleep(0.05)
    return example.input

async def fail(example: Example):
    raise ValueError("no answer")
"""
RUN = "evaluate(examples, answer, [ExactMatch()], name='run <b>', journal=False{})"
AWAIT = "await evaluate_async(examples, answer, [ExactMatch()], name='awaited', journal=False)"


class Client(nbclient.NotebookClient):  # type: ignore[misc] # it has no types
    """Runs cells, and notes every message that a page would get."""

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        self.__dict__.setdefault("messages", []).append((cell_index, msg))
        return super().process_message(msg, cell, cell_index)


def shown_by(folder: Path, *cells: str) -> tuple[list[list[Any]], list[tuple[int, dict[str, Any]]]]:
    """Return the outputs of each cell, and all messages."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (BEGIN, *cells)])
    client = Client(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    asyncio.run(client.async_execute())  # by itself, it leaves an open event loop to this thread
    return [cell.outputs for cell in notebook.cells[1:]], client.messages


def texts(outputs: list[Any], kind: str, mime: str) -> list[str]:
    found = [output.data.get(mime) for output in outputs if output.output_type == kind]
    return [text for text in found if text]


def errors(outputs: list[Any]) -> str:
    return "".join(output.text for output in outputs if output.get("name") == "stderr")


@pytest.mark.slow
def test_cells_show_progress_the_result_once_and_what_waits(tmp_path: Path) -> None:
    (first, again, awaited, kept, quiet), messages = shown_by(
        tmp_path, RUN.format(""), RUN.format(""), AWAIT, f"kept = {AWAIT}", RUN.format(", quiet=True")
    )
    for outputs in (first, again, awaited, kept):
        tables = texts(outputs, "display_data", "text/html")
        assert len(tables) == 1, "the bar is taken away, and the result stands there once"
        assert "<table>" in tables[0]
    assert "run &lt;b&gt;" in texts(first, "display_data", "text/html")[0]
    for outputs in (first, again, awaited):
        assert texts(outputs, "execute_result", "text/html") == []
        assert texts(outputs, "execute_result", "text/plain")[0].startswith("<ExperimentResult ")
    assert errors(first).count("An event loop is running here") == 1
    assert errors(again) == errors(awaited) == errors(kept) == ""
    assert [output.output_type for output in quiet] == ["execute_result"]
    assert "<table>" in quiet[0].data["text/html"]
    for cell in (1, 2, 3, 4):
        bars = _bars(messages, cell)
        assert len({bar["transient"]["display_id"] for bar in bars}) == 1
        assert any("/12 · " in bar["data"]["text/html"] for bar in bars)
        assert bars[-1]["data"]["text/plain"] == ""
    assert _bars(messages, 5) == []


def _bars(messages: list[tuple[int, dict[str, Any]]], cell: int) -> list[dict[str, Any]]:
    kinds = ("display_data", "update_display_data")
    found = [
        message["content"] for index, message in messages if index == cell and message["msg_type"] in kinds
    ]
    return [
        content for content in found if str(content["transient"].get("display_id", "")).startswith("dokimos")
    ]


@pytest.mark.slow
def test_a_broken_run_says_so_and_values_are_tables(tmp_path: Path) -> None:
    (broken, compared, later), _ = shown_by(
        tmp_path,
        f"kept = {AWAIT.replace('answer', 'fail')}",
        "from dokimos import compare_runs\ncompare_runs(kept, kept)",
        "kept",
    )
    assert "broken after 12 items" in errors(broken)
    assert "<table>" in texts(compared, "execute_result", "text/html")[0]
    assert "ValueError: no answer" in texts(later, "execute_result", "text/html")[0]

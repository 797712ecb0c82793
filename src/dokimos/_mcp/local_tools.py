"""Tools that read what is on this machine: runs, items, comparisons, data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from dokimos._core.results import EvalResult, ItemResult
from dokimos._mcp.allowed_folders import DATASETS, AllowedFolders
from dokimos._mcp.answers import (
    clean_name,
    clean_text,
    cut_page,
    cut_parts,
    foreign,
    foreign_map,
    item_answer,
    parse_cursor,
)
from dokimos._mcp.comparison_answer import comparison_answer
from dokimos._mcp.local_runs import ListedRun, LocalRuns, summarize
from dokimos._mcp.planning import PLAN_PARAMETERS, PLAN_TEXT, assume, plan_answer
from dokimos._mcp.tool import CURSOR, Answer, Arguments, Parameter, Tool, ToolError
from dokimos._runtime.concurrency import call_in_thread
from dokimos.errors import DokimosError

MOST_LISTED: Final = 200
_MOST_ITEMS: Final = 100
_MOST_DATASET_BYTES: Final = 64 * 2**20
"""A JSON file is read whole, to count or to run what is in it."""
_MOST_COUNTED_BYTES: Final = 2**20
"""A list says of larger files only their sizes."""
_ITEM_TEXT: Final = 8_000

RUN_ID: Final = Parameter("run_id", "string", "Run ID to inspect", required=True)
LIST_PARAMETERS: Final = (
    Parameter(
        "limit", "integer", "Maximum number of runs to return", default=20, minimum=1, maximum=MOST_LISTED
    ),
    Parameter("dataset_name", "string", "Filter to runs that used this dataset name"),
    CURSOR,
)
COMPARE_PARAMETERS: Final = (
    Parameter("run_id_a", "string", "First run ID (baseline)", required=True),
    Parameter("run_id_b", "string", "Second run ID (comparison)", required=True),
    CURSOR,
)
FAILING_PARAMETERS: Final = (
    RUN_ID,
    Parameter("threshold", "number", "Score below which a query counts as failing", default=0.5),
    CURSOR,
)
ITEM_PARAMETERS: Final = (
    RUN_ID,
    Parameter("item", "string", "The item: its id, or its index in the data set", required=True),
    Parameter(
        "text_offset", "integer", "Show long texts from this character on", default=0, minimum=0
    ),
    CURSOR,
)  # fmt: skip
LIST_TEXT: Final = (
    "List past evaluation runs, the newest first, with their run IDs, timestamps, dataset names and summary "
    "metrics."
)
COMPARE_TEXT: Final = (
    "Compare two runs item by item: a verdict in a sentence with its evidence, deltas of metrics, and the "
    "items that changed, regressions first. Only changes that are more than chance count as regressions."
)
FAILING_TEXT: Final = (
    "Return the examples of a run that did not pass or scored below a threshold, with input, expected and "
    "actual output and each evaluator's score and reason."
)
ITEM_TEXT: Final = (
    "Return one item of a run whole: inputs, outputs, scores, reasons and errors. Where long texts were cut, "
    "next_text_offset is the text_offset at which they go on."
)


def _answer(work: Callable[[Arguments], Answer]) -> Callable[[Arguments], Any]:
    """Return a tool's function that works in a thread: reading takes a while, and others are answered."""
    return partial(call_in_thread, work)


@dataclass(frozen=True, slots=True)
class LocalTools:
    """What can be read without spending anything."""

    runs: LocalRuns
    folders: AllowedFolders

    def tools(self) -> list[Tool]:
        """Return the tools."""
        return [
            Tool(name="list_experiments", description=LIST_TEXT, parameters=LIST_PARAMETERS,
                 call=_answer(self._list_experiments)),
            Tool(name="compare_runs", description=COMPARE_TEXT, parameters=COMPARE_PARAMETERS,
                 call=_answer(self._compare_runs)),
            Tool(name="get_failing_queries", description=FAILING_TEXT, parameters=FAILING_PARAMETERS,
                 call=_answer(self._get_failing_queries)),
            Tool(name="get_item", description=ITEM_TEXT, parameters=ITEM_PARAMETERS,
                 call=_answer(self._get_item)),
            Tool(name="plan", description=PLAN_TEXT, parameters=PLAN_PARAMETERS, call=_answer(self._plan)),
            Tool(
                name="list_datasets",
                description="List the dataset files in the allowed folders: paths for dataset_path.",
                parameters=(CURSOR,),
                call=_answer(self._list_datasets),
            ),
        ]  # fmt: skip

    def _list_experiments(self, arguments: Arguments) -> Answer:
        name, start = arguments["dataset_name"], parse_cursor(arguments["cursor"])
        chosen = [run for run in self.runs.list() if name is None or run.dataset == name]
        shown = chosen[start : start + arguments["limit"]]
        entries = [_summary_or_problem(run) for run in shown]
        answer: Answer = {"count": len(entries), "runs": entries}
        end = start + len(shown)
        return answer if end >= len(chosen) else {**answer, "next_cursor": str(end)}

    def _compare_runs(self, arguments: Arguments) -> Answer:
        from dokimos.comparison._comparison_builder import compare_runs

        start = parse_cursor(arguments["cursor"])
        sides = [self.runs.find(arguments[name]) for name in ("run_id_a", "run_id_b")]
        before, now = (side.load() for side in sides)
        run_a, run_b = summarize(sides[0], before), summarize(sides[1], now)
        return comparison_answer(compare_runs(before, now), run_a, run_b, start)

    def _get_failing_queries(self, arguments: Arguments) -> Answer:
        run_id, threshold = arguments["run_id"], arguments["threshold"]
        result = self.runs.load(run_id)
        lower = result.lower_is_better
        failing = [item for item in result.item_results if _is_failing(item, threshold, lower)]
        start = parse_cursor(arguments["cursor"])
        answer: Answer = {
            "run_id": run_id,
            "threshold": threshold,
            "total_examples": result.total_count,
            "failing_count": len(failing),
        }
        # Only what may be shown: a run of a million items is not written out to cut it then.
        entries = [_query_tree(item) for item in failing[start : start + _MOST_ITEMS]]
        page = cut_page(entries, 0, most=_MOST_ITEMS)
        end = start + len(page.entries)
        return replace(page, next_cursor=str(end) if end < len(failing) else None).add_to(
            answer, "failing_queries"
        )

    def _get_item(self, arguments: Arguments) -> Answer:
        result, key = self.runs.load(arguments["run_id"]), arguments["item"]
        found = [
            (run.index, item)
            for run in result.runs
            for item in run.item_results
            if key in (item.key, str(item.index), item.index_key)
        ]
        if not found:
            keys = ", ".join(clean_name(item.key) for item in islice(result.item_results, 5))
            raise ToolError(f"The run has no item {key[:80]!r}; its first items are {keys or 'none'}.")
        repeats = [_item_tree(item, repeat, arguments["text_offset"]) for repeat, item in found]
        return item_answer(arguments["run_id"], repeats, arguments["cursor"])

    def _plan(self, arguments: Arguments) -> Answer:
        from dokimos.comparison._planning import assumptions_of

        if arguments["run_id"] is None:
            return plan_answer(arguments, assume(arguments), None)
        past = self.runs.load(arguments["run_id"])
        return plan_answer(arguments, assumptions_of(past, noise_share=arguments["noise"]), past.total_count)

    def _list_datasets(self, arguments: Arguments) -> Answer:
        files, incomplete = self.folders.list_files(DATASETS)
        page = cut_page([str(file) for file in files], parse_cursor(arguments["cursor"]), most=MOST_LISTED)
        described = [_describe_dataset(Path(file)) for file in page.entries]
        answer: Answer = {"allowed_folders": [str(folder) for folder in self.folders.folders]}
        if incomplete is not None:
            answer["incomplete"] = incomplete
        return replace(page, entries=described).add_to(answer, "datasets")


def _summary_or_problem(run: ListedRun) -> dict[str, Any]:
    try:
        return summarize(run, run.load())
    except (DokimosError, ValueError, OverflowError) as error:  # one odd run does not hide the others
        names = {"run_id": clean_name(run.run_id), "timestamp": clean_name(run.started_at)}
        return {**names, "problem": foreign(str(error))}


def _is_failing(item: ItemResult, threshold: float, lower_is_better: frozenset[str]) -> bool:
    """Whether an item did not pass, or a score of it is below the threshold."""
    return item.success is False or any(
        one.score is not None and one.score < threshold and one.name not in lower_is_better
        for one in item.eval_results
    )


def _query_tree(item: ItemResult) -> dict[str, Any]:
    inputs, expected = item.example.inputs, item.example.expected_outputs
    tree = {
        "index": item.index,
        "item": clean_name(item.key),
        "input": foreign(inputs.get("input") if list(inputs) == ["input"] else inputs),
        "expected_output": foreign(
            expected.get("output") if list(expected) == ["output"] else expected or None
        ),
        "actual_output": foreign(
            item.actual_output if item.actual_output is not None else item.actual_outputs or None
        ),
        "success": item.success,
        "evaluations": cut_parts([_evaluation_tree(one) for one in item.eval_results]),
    }
    return tree if item.error is None else {**tree, "error": foreign(item.error)}


def _evaluation_tree(result: EvalResult, **limits: int) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "evaluator": clean_name(result.name),
        "score": result.score,
        "success": result.success,
        "reason": foreign(result.reason, **limits),
    }
    if result.threshold is not None:
        tree["threshold"] = result.threshold
    for name in ("error", "skipped"):
        text = getattr(result, name)
        if text is not None:
            tree[name] = foreign(text, **limits)
    return tree


def _item_tree(item: ItemResult, repeat: int, start: int) -> dict[str, Any]:
    limits = {"start": start, "limit": _ITEM_TEXT}
    return {
        "repeat": repeat,
        "index": item.index,
        "item": clean_name(item.key),
        "outcome": item.outcome.value,
        "inputs": foreign_map(item.example.inputs, **limits),
        "expected_outputs": foreign_map(item.example.expected_outputs, **limits),
        "actual_outputs": foreign_map(item.actual_outputs, **limits),
        "metadata": foreign_map(item.example.metadata, **limits),
        "evaluations": cut_parts([_evaluation_tree(one, **limits) for one in item.eval_results]),
        "error": foreign(item.error, **limits),
    }


def count_examples(path: Path, most: int) -> int:
    """Count the examples of a file, up to one more than `most`, so that a huge file is not read to its end.

    Raises:
        ToolError: for a JSON file that is too large to be read whole.
        DatasetError: where it is not a data set.
    """
    from dokimos.datasets._dataset import Dataset

    if path.suffix.lower() == ".json" and path.stat().st_size > _MOST_DATASET_BYTES:
        raise ToolError(
            f"{path.name} has {path.stat().st_size / 2**20:,.0f} MiB; a .json file may have at most "
            f"{_MOST_DATASET_BYTES // 2**20} MiB here. A .jsonl file may have any size."
        )
    return sum(1 for _ in islice(_stream(Dataset.stream(path)), most + 1))


def _stream(examples: Any) -> Iterator[Any]:
    yield from examples


def _describe_dataset(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    tree: dict[str, Any] = {"path": clean_text(str(path)), "size_bytes": size}
    if size > _MOST_COUNTED_BYTES:
        return tree
    try:
        return {**tree, "examples": count_examples(path, _MOST_COUNTED_BYTES)}
    except DokimosError as error:
        return {**tree, "problem": foreign(str(error), limit=500)}

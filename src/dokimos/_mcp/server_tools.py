"""Tools over a dokimos server: what its API answers, with the roles of whoever's key is sent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dokimos._http.api_client import encode_segment
from dokimos._mcp.answers import clean_name, cut_page, foreign, foreign_map, parse_cursor
from dokimos._mcp.local_tools import (
    COMPARE_PARAMETERS,
    COMPARE_TEXT,
    FAILING_PARAMETERS,
    FAILING_TEXT,
    ITEM_PARAMETERS,
    ITEM_TEXT,
    LIST_PARAMETERS,
    LIST_TEXT,
    RUN_ID,
)
from dokimos._mcp.tool import CURSOR, Answer, Arguments, Parameter, Tool, ToolError
from dokimos.client._run_api import Api

_MOST_CASES: Final = 50
_MOST_ITEMS: Final = 100
_MOST_TRACES: Final = 50
_ITEM_TEXT: Final = 8_000
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PROJECT: Final = Parameter("project", "string", "The project on the server, unless one is set")
_NOT_FAILING: Final = "pu"
"""Outcomes of an outline that are not failures: passed, and not judged."""
Tree = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ServerTools:
    """What agents may ask a server."""

    api: Api
    project: str | None = None

    def tools(self, *, read_only: bool = False) -> list[Tool]:
        """Return the tools."""
        reading = [
            Tool(name="list_experiments", description=LIST_TEXT, call=self._list_experiments,
                 parameters=(*LIST_PARAMETERS, _PROJECT, _EXPERIMENT)),
            Tool(name="compare_runs", description=COMPARE_TEXT, call=self._compare_runs,
                 parameters=COMPARE_PARAMETERS),
            Tool(name="get_failing_queries", description=FAILING_TEXT, call=self._get_failing_queries,
                 parameters=FAILING_PARAMETERS),
            Tool(name="get_item", description=ITEM_TEXT, call=self._get_item, parameters=ITEM_PARAMETERS),
            Tool(
                name="list_datasets",
                description="List the data sets of the server, with their latest versions.",
                call=self._list_datasets, parameters=(CURSOR,),
            ),
            Tool(
                name="search_traces",
                description="Find traces of applications in production, the newest first.",
                call=self._search_traces, parameters=(*_TRACE_PARAMETERS, _PROJECT, CURSOR),
            ),
        ]  # fmt: skip
        if read_only:
            return reading
        annotate = Tool(
            name="annotate",
            description="Record what the user thinks of an item's output; replaces the annotation before. "
            "Needs a key with the role EDITOR. Only with a verdict that the user has given.",
            call=self._annotate, parameters=_ANNOTATE_PARAMETERS, changes=True,
        )  # fmt: skip
        return [*reading, annotate]

    async def _get(self, path: str, **query: str | int | None) -> Any:
        return (await self.api.request("GET", path, query=query)).json()

    async def _project_of(self, arguments: Arguments) -> str:
        project = arguments["project"] or self.project
        if project is not None:
            return str(project)
        names = [clean_name(one["name"]) for one in await self._get("/projects", limit=20)]
        raise ToolError(f"Name a project of the server: {', '.join(names) or 'it has none that you see'}.")

    async def _list_experiments(self, arguments: Arguments) -> Answer:
        project = await self._project_of(arguments)
        experiments = await self._get(f"/projects/{encode_segment(project)}/experiments")
        named = arguments["experiment"]
        if named is None and arguments["dataset_name"] is None:
            entries = [_experiment_tree(one) for one in experiments]
        else:
            chosen = [one for one in experiments if named in (None, one["name"], one["id"])]
            entries = list(await self._runs_of(chosen, arguments["dataset_name"]))
        page = cut_page(entries, parse_cursor(arguments["cursor"]), most=arguments["limit"])
        answer: Answer = {"project": clean_name(project), "count": len(page.entries)}
        return page.add_to(answer, "runs")

    async def _runs_of(self, experiments: Sequence[Tree], dataset: str | None) -> list[dict[str, Any]]:
        """Return the newest runs of some experiments."""
        runs = [
            _run_tree(run, experiment["name"])
            for experiment in experiments[:_MOST_CASES]
            for run in await self._get(f"/experiments/{experiment['id']}/runs", limit=200)
            if dataset is None or run.get("datasetName") == dataset
        ]
        return sorted(runs, key=lambda run: str(run["timestamp"]), reverse=True)

    async def _run(self, run_id: str, **query: Any) -> Any:
        if not _UUID.fullmatch(run_id):
            raise ToolError(
                f"{run_id[:80]!r} is not the id of a run of the server; list_experiments lists them."
            )
        return await self._get(f"/runs/{run_id}", **query)

    async def _compare_runs(self, arguments: Arguments) -> Answer:
        number = parse_cursor(arguments["cursor"])
        before, now = [await self._run(arguments[name], size=1) for name in ("run_id_a", "run_id_b")]
        diff = await self._get(
            f"/experiments/{now['experimentId']}/runs/{now['id']}/diff",
            baselineRunId=before["id"], status="CHANGED", size=_MOST_CASES, page=number,
        )  # fmt: skip
        summary, cases = diff["summary"], diff["cases"]
        answer: Answer = {
            "verdict": verdict_of(summary),
            "warnings": [clean_name(warning) for warning in summary["warnings"]],
            "run_a": _run_tree(before, before["experimentName"]),
            "run_b": _run_tree(now, now["experimentName"]),
            "comparison": {
                **_comparison_tree(summary),
                "cases": [_case_tree(case) for case in cases["content"]],
                "cases_truncated": not cases["last"],
                "changed_case_count": cases["totalElements"],
            },
        }
        return answer if cases["last"] else {**answer, "next_cursor": str(number + 1)}

    async def _get_failing_queries(self, arguments: Arguments) -> Answer:
        run = await self._run(arguments["run_id"], size=1)
        outline = await self._get(f"/runs/{run['id']}/outline")
        lower = {one["name"] for one in run["evaluators"] if one["direction"] == "LOWER_IS_BETTER"}
        failing = find_failing(outline, arguments["threshold"], lower)
        start = parse_cursor(arguments["cursor"])
        shown = failing[start : start + _MOST_ITEMS]
        items = await self._items_at(run["id"], shown)
        page = cut_page([_query_tree(item) for item in items], 0, most=_MOST_ITEMS)
        end = start + len(page.entries)
        answer: Answer = {
            "run_id": run["id"],
            "threshold": arguments["threshold"],
            "total_examples": run["totalItems"],
            "failing_count": len(failing),
        }
        page = replace(page, next_cursor=str(end) if page.entries and end < len(failing) else None)
        return page.add_to(answer, "failing_queries")

    async def _items_at(self, run_id: str, places: Sequence[tuple[int, int]]) -> list[Tree]:
        """Return the items at these ordinals and repetitions, in their order."""
        if not places:
            return []
        # The client's query takes one value for each name, and the server several: they are in the path.
        named = "&".join(f"ordinal={ordinal}" for ordinal in sorted({ordinal for ordinal, _ in places}))
        reply = await self.api.request("GET", f"/runs/{run_id}?size=2000&{named}")
        found = {(item["ordinal"], item["repetition"]): item for item in reply.json()["items"]["content"]}
        return [found[place] for place in places if place in found]

    async def _get_item(self, arguments: Arguments) -> Answer:
        key = arguments["item"]
        if _UUID.fullmatch(key):
            found = await self._run(arguments["run_id"], itemId=key)
        elif key.isascii() and key.isdecimal() and len(key) < 12:
            found = await self._run(arguments["run_id"], ordinal=int(key))
        else:
            raise ToolError(f"item is the id of an item on the server, or its index, not {key[:80]!r}.")
        items = found["items"]["content"]
        if not items:
            raise ToolError(f"The run has no item {key!r}.")
        start = arguments["text_offset"]
        return {"run_id": found["id"], "repeats": [_item_tree(item, start) for item in items]}

    async def _list_datasets(self, arguments: Arguments) -> Answer:
        page = cut_page(await self._get("/datasets"), parse_cursor(arguments["cursor"]), most=200)
        entries = [
            {
                "name": clean_name(one["name"]),
                "description": foreign(one["description"]),
                "latest_version": one["latestVersion"],
                "examples": one["latestItemCount"],
            }
            for one in page.entries
        ]
        return replace(page, entries=entries).add_to({}, "datasets")

    async def _search_traces(self, arguments: Arguments) -> Answer:
        cursor = arguments["cursor"]
        if cursor is not None and not _UUID.fullmatch(cursor):
            raise ToolError(f"The cursor {cursor[:40]!r} is none of an earlier answer.")
        found = await self._get(
            "/traces",
            project=arguments["project"] or self.project,
            search=arguments["search"], status=arguments["status"], since=arguments["since"],
            evaluator=arguments["evaluator"], maxScore=arguments["max_score"],
            size=_MOST_TRACES, after=cursor,
        )  # fmt: skip
        answer: Answer = {"traces": [_trace_tree(one) for one in found["content"]]}
        following = found["nextAfter"]
        return answer if following is None else {**answer, "next_cursor": following}

    async def _annotate(self, arguments: Arguments) -> Answer:
        for name in ("run_id", "item_id"):
            if not _UUID.fullmatch(arguments[name]):
                raise ToolError(f"{name} must be an id of the server, not {arguments[name][:80]!r}.")
        path = f"/runs/{arguments['run_id']}/items/{arguments['item_id']}/annotation"
        body = {"verdict": arguments["verdict"], "note": arguments["note"]}
        corrected = arguments["corrected_output"]
        if corrected is not None:
            body["overriddenExpectedOutput"] = {"output": corrected}
        await self.api.request("PUT", path, json={name: one for name, one in body.items() if one is not None})
        return {"run_id": arguments["run_id"], "item_id": arguments["item_id"], "verdict": body["verdict"]}


_EXPERIMENT: Final = Parameter(
    "experiment", "string", "List the runs of this experiment; else the latest run of each"
)
_TRACE_PARAMETERS: Final = (
    Parameter("search", "string", "Words that occur in the trace"),
    Parameter("status", "string", "How it ended", choices=("ok", "error")),
    Parameter("since", "string", "Traces that began after this time, such as 2026-11-28T00:00:00Z"),
    Parameter("evaluator", "string", "Traces with a score of this evaluator"),
    Parameter("max_score", "number", "With evaluator: traces whose score is at most this"),
)
_ANNOTATE_PARAMETERS: Final = (
    RUN_ID,
    Parameter("item_id", "string", "The item: its item_id in get_failing_queries or get_item", required=True),
    Parameter(
        "verdict", "string", "What the user thinks of the output", required=True,
        choices=("CORRECT", "INCORRECT", "UNSURE"),
    ),
    Parameter("note", "string", "Why"),
    Parameter("corrected_output", "string", "What the expected output should be"),
)  # fmt: skip


def find_failing(outline: Tree, threshold: float, lower_is_better: set[str]) -> list[tuple[int, int]]:
    """Return ordinal and repetition of each item that failed, errored, or has a score below the threshold."""
    columns = [one["scores"] for one in outline["evaluators"] if one["evaluatorName"] not in lower_is_better]
    places = zip(outline["ordinals"], outline["repetitions"], outline["outcomes"], strict=True)
    return [
        (ordinal, repetition)
        for index, (ordinal, repetition, outcome) in enumerate(places)
        if outcome not in _NOT_FAILING
        or any(scores[index] is not None and scores[index] < threshold for scores in columns)
    ]


def verdict_of(summary: Tree) -> str:
    """Say in one sentence what a comparison of the server found."""
    changes = {clean_name(one["evaluator"]): one["status"] for one in summary["metrics"]}
    delta = summary["pairedDelta"] or 0.0
    if summary["significant"] and delta:
        changes = {"pass rate": "REGRESSED" if delta < 0 else "IMPROVED", **changes}
    worse = [name for name, status in changes.items() if status == "REGRESSED"]
    better = [name for name, status in changes.items() if status == "IMPROVED"]
    if not summary["pairedCount"]:
        return "Nothing was compared."
    parts = [f"Worse: {', '.join(worse)}"] if worse else []
    if better:
        parts.append(f"{'better' if worse else 'Better'}: {', '.join(better)}")
    return (
        f"{'; '.join(parts) or 'No significant change'}, over {summary['pairedCount']:,} items of both runs."
    )


def _comparison_tree(summary: Tree) -> dict[str, Any]:
    metrics = {clean_name(one["evaluator"]): one for one in summary["metrics"]}
    regressions = [name for name, one in metrics.items() if one["status"] == "REGRESSED"]
    has_dropped = summary["significant"] and (summary["pairedDelta"] or 0.0) < 0
    names = ("improved", "regressed", "unchanged", "added", "removed")
    return {
        "pass_rate": {
            "run_a": summary["pairedBaselinePassRate"],
            "run_b": summary["pairedCandidatePassRate"],
            "delta": summary["pairedDelta"],
            "interval": summary["pairedDeltaInterval"],
            "significant": summary["significant"],
            "p_value": summary["pValue"],
            "method": summary["method"],
        },
        "evaluators": {
            name: {
                "run_a": one["baselineMean"],
                "run_b": one["candidateMean"],
                "delta": one["delta"],
                "status": one["status"],
                "significant": one["significant"],
                "p_value": one["pValue"],
            }
            for name, one in metrics.items()
        },
        "regressions": regressions,
        "has_regressions": has_dropped or bool(regressions),
        "pass_rate_regressed": has_dropped,
        "summary_counts": {name: summary[f"{name}Count"] for name in names},
        "composition_changed": bool(summary["addedCount"] or summary["removedCount"]),
    }


def _experiment_tree(experiment: Tree) -> dict[str, Any]:
    latest = experiment["latestRun"] or {}
    return {
        "run_id": latest.get("runId"),
        "timestamp": latest.get("startedAt"),
        "experiment_name": clean_name(experiment["name"]),
        "pass_rate": latest.get("passRate"),
        "status": latest.get("status"),
        "run_count": experiment["runCount"],
    }


def _run_tree(run: Tree, experiment: str) -> dict[str, Any]:
    dataset = run.get("datasetName")
    return {
        "run_id": run["id"],
        "timestamp": run["startedAt"],
        "experiment_name": clean_name(experiment),
        "dataset": None if dataset is None else clean_name(dataset),
        "total_examples": run.get("itemCount", run.get("totalItems")),
        "pass_rate": run["passRate"],
        "status": run["status"],
        "branch": None if run["gitBranch"] is None else clean_name(run["gitBranch"]),
    }


def _case_tree(case: Tree) -> dict[str, Any]:
    return {
        "index": case["index"],
        "item_id": case["candidateItemId"],
        "input": foreign(case["input"]),
        "status": case["status"],
        "pass_flip": case["passFlip"],
        "evaluators": [
            {
                "name": clean_name(one["name"]),
                "run_a": one["baselineMean"],
                "run_b": one["candidateMean"],
                "delta": one["delta"],
                "status": one["status"],
                "significant": one["significant"],
            }
            for one in case["evaluators"]
        ],
    }


def _query_tree(item: Tree) -> dict[str, Any]:
    return {
        "index": item["ordinal"],
        "item_id": item["id"],
        "input": foreign(_value_of(item["input"], "input")),
        "expected_output": foreign(_value_of(item["expectedOutput"], "output")),
        "actual_output": foreign(_value_of(item["actualOutput"], "output")),
        "evaluations": [_evaluation_tree(one) for one in item["evalResults"]],
        "error": foreign(item["error"]),
    }


def _value_of(values: object, name: str) -> object:
    """Return the one value of a map that has only this one, else the map."""
    return values[name] if isinstance(values, dict) and list(values) == [name] else values


def _evaluation_tree(result: Tree, **limits: int) -> dict[str, Any]:
    return {
        "evaluator": clean_name(result["evaluatorName"]),
        "score": result["score"],
        "threshold": result["threshold"],
        "success": result["success"],
        "reason": foreign(result["reason"], **limits),
    }


def _item_tree(item: Tree, start: int) -> dict[str, Any]:
    limits = {"start": start, "limit": _ITEM_TEXT}
    parts = {"inputs": "input", "expected_outputs": "expectedOutput", "actual_outputs": "actualOutput"}
    shown = {
        name: foreign_map(item[key], **limits)
        if isinstance(item[key], dict)
        else foreign(item[key], **limits)
        for name, key in parts.items()
    }
    return {
        "index": item["ordinal"],
        "repeat": item["repetition"],
        "item_id": item["id"],
        **shown,
        "evaluations": [_evaluation_tree(one, **limits) for one in item["evalResults"]],
        "error": foreign(item["error"], **limits),
        "annotation": foreign(item["annotation"], **limits),
    }


def _trace_tree(trace: Tree) -> dict[str, Any]:
    """Return a trace as its list has it, with its texts marked."""
    return {
        name: foreign(value) if isinstance(value, str | dict | list) and not _is_plain(name) else value
        for name, value in trace.items()
        if value is not None
    }


def _is_plain(name: str) -> bool:
    """Whether a field of a trace is the server's own, and no text of an application."""
    return name in ("id", "traceId", "projectId", "status") or name.endswith(("At", "Time", "NanoText"))

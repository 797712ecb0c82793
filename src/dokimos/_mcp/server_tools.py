"""Tools over a dokimos server: what its API answers, with the roles of whoever's key is sent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dokimos._http.api_client import encode_segment
from dokimos._mcp.answers import clean_name, cut_page, foreign, item_answer, parse_cursor, share_limit
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
from dokimos._mcp.planning import PLAN_PARAMETERS, PLAN_TEXT, assume, plan_answer
from dokimos._mcp.server_answers import (
    Tree,
    case_tree,
    comparison_tree,
    experiment_tree,
    find_failing,
    item_tree,
    lower_is_better,
    past_scores,
    query_tree,
    run_tree,
    trace_tree,
    verdict_of,
)
from dokimos._mcp.tool import CURSOR, Answer, Arguments, Parameter, Tool, ToolError
from dokimos._runtime.concurrency import call_in_thread
from dokimos.client._run_api import Api

_MOST_CASES: Final = 50
_MOST_RUNS: Final = 200
_MOST_ITEMS: Final = 100
_MOST_TRACES: Final = 50
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PROJECT: Final = Parameter("project", "string", "The project on the server, unless one is set")


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
            Tool(name="plan", description=PLAN_TEXT, call=self._plan, parameters=PLAN_PARAMETERS),
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
            call=self._annotate, parameters=_ANNOTATE_PARAMETERS, changes=True, replaces=True,
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
        named, incomplete = arguments["experiment"], None
        if named is None and arguments["dataset_name"] is None:
            entries = [experiment_tree(one) for one in experiments]
        else:
            chosen = [one for one in experiments if named in (None, one["name"], one["id"])]
            entries, incomplete = await self._runs_of(chosen, arguments["dataset_name"])
        page = cut_page(entries, parse_cursor(arguments["cursor"]), most=arguments["limit"])
        answer: Answer = {"project": clean_name(project), "count": len(page.entries)}
        if incomplete is not None:
            answer["incomplete"] = incomplete
        return page.add_to(answer, "runs")

    async def _runs_of(
        self, experiments: Sequence[Tree], dataset: str | None
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Return the newest runs of some experiments, and what is missing, None for nothing."""
        runs, is_cut = [], False
        for experiment in experiments[:_MOST_CASES]:
            found = await self._get(f"/experiments/{experiment['id']}/runs", limit=_MOST_RUNS)
            is_cut |= len(found) >= _MOST_RUNS
            runs += [
                run_tree(run, experiment["name"])
                for run in found
                if dataset is None or run.get("datasetName") == dataset
            ]
        missing = [f"the newest {_MOST_RUNS} runs of each experiment"] if is_cut else []
        if len(experiments) > _MOST_CASES:
            missing.append(f"the first {_MOST_CASES} of {len(experiments):,} experiments")
        incomplete = f"only {' and '.join(missing)} were searched" if missing else None
        return sorted(runs, key=lambda run: str(run["timestamp"]), reverse=True), incomplete

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
            "warnings": [foreign(warning) for warning in summary["warnings"]],
            "run_a": run_tree(before, before["experimentName"]),
            "run_b": run_tree(now, now["experimentName"]),
            "comparison": {
                **comparison_tree(summary),
                "cases": share_limit([case_tree(case) for case in cases["content"]]),
                "cases_truncated": not cases["last"],
                "changed_case_count": cases["totalElements"],
            },
        }
        return answer if cases["last"] else {**answer, "next_cursor": str(number + 1)}

    async def _get_failing_queries(self, arguments: Arguments) -> Answer:
        run = await self._run(arguments["run_id"], size=1)
        outline = await self._get(f"/runs/{run['id']}/outline")
        failing = find_failing(outline, arguments["threshold"], lower_is_better(run))
        start = parse_cursor(arguments["cursor"])
        shown = failing[start : start + _MOST_ITEMS]
        items = await self._items_at(run["id"], shown)
        page = cut_page([query_tree(item) for item in items], 0, most=_MOST_ITEMS)
        end = start + len(page.entries)
        answer: Answer = {
            "run_id": run["id"],
            "threshold": arguments["threshold"],
            "total_examples": run["totalItems"],
            "failing_count": len(failing),
        }
        page = replace(page, next_cursor=str(end) if page.entries and end < len(failing) else None)
        return page.add_to(answer, "failing_queries")

    async def _plan(self, arguments: Arguments) -> Answer:
        if arguments["run_id"] is None:
            return plan_answer(arguments, assume(arguments), None)
        run = await self._run(arguments["run_id"], size=1)
        outline = await self._get(f"/runs/{run['id']}/outline")
        past = await call_in_thread(past_scores, run, outline, arguments["noise"])
        return plan_answer(arguments, past, len(set(outline["ordinals"])))

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
        return item_answer(found["id"], [item_tree(item, start) for item in items], arguments["cursor"])

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
            raise ToolError(f"The cursor {cursor[:40]!r} is not one of an earlier answer.")
        found = await self._get(
            "/traces",
            project=arguments["project"] or self.project,
            search=arguments["search"], status=arguments["status"], since=arguments["since"],
            evaluator=arguments["evaluator"], maxScore=arguments["max_score"],
            size=_MOST_TRACES, after=cursor,
        )  # fmt: skip
        answer: Answer = {"traces": share_limit([trace_tree(one) for one in found["content"]])}
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

"""Tools over a server: what is said of a list that could not be searched whole."""

import json

import pytest

from dokimos._http.api_client import ApiReply
from dokimos._mcp.server_tools import ServerTools


class Api:
    """A server with so many experiments, and so many runs in each."""

    def __init__(self, experiments, runs):
        run = {
            "id": "r", "startedAt": "2026", "passRate": 1.0, "status": "SUCCESS", "gitBranch": None,
            "datasetName": "qa", "itemCount": 1,
        }  # fmt: skip
        self.experiments = [{"id": str(number), "name": str(number)} for number in range(experiments)]
        self.runs = [run] * runs

    async def request(self, method, path, **more):
        found = self.runs if path.endswith("/runs") else self.experiments
        return ApiReply(200, {}, json.dumps(found).encode(), path)


@pytest.mark.parametrize(
    ("experiments", "runs", "incomplete"),
    [
        (2, 3, None),
        (51, 1, "only the first 50 of 51 experiments were searched"),
        (1, 200, "only the newest 200 runs of each experiment were searched"),
    ],
)
async def test_a_list_says_what_was_not_searched(experiments, runs, incomplete):
    tools = {tool.name: tool for tool in ServerTools(Api(experiments, runs), "shop").tools()}
    tool = tools["list_experiments"]
    answer = await tool.call(tool.check({"dataset_name": "qa"}))
    assert answer.get("incomplete") == incomplete


def test_an_annotation_replaces_the_one_before():
    hints = {tool.name: tool.describe()["annotations"] for tool in ServerTools(Api(0, 0)).tools()}
    assert [name for name, hint in hints.items() if hint["destructiveHint"]] == ["annotate"]

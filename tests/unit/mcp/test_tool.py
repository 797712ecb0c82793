"""Parameters of tools: their schema, and what calls with wrong arguments are told."""

import pytest

from dokimos._mcp.local_tools import LIST_PARAMETERS
from dokimos._mcp.run_tools import RunLimits, RunTools
from dokimos._mcp.tool import Parameter, Tool, ToolError


async def answer(arguments):
    return dict(arguments)


TOOL = Tool(
    name="try_it",
    description="Tries it.",
    call=answer,
    parameters=(
        Parameter("path", "string", "Where it is", required=True),
        Parameter("count", "integer", "How many", default=20, minimum=1, maximum=50),
        Parameter("share", "number", "How much", minimum=0, maximum=1),
        Parameter("kind", "string", "Which", choices=("one", "two")),
        Parameter("sure", "boolean", "Whether", default=False),
    ),
)


def test_absent_and_null_arguments_have_their_defaults():
    expected = {"path": "x", "count": 20, "share": None, "kind": None, "sure": False}
    assert TOOL.check({"path": "x"}) == TOOL.check({"path": "x", "count": None, "kind": None}) == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "path is missing: Where it is"),
        (None, "path is missing"),
        ([1], "must be an object"),
        ({"path": "x", "cuont": 3}, "There is no parameter 'cuont'. Did you mean 'count'?"),
        ({"path": 3}, "path must be of type string, not 3."),
        ({"path": ["x"]}, "path must be of type string"),
        ({"path": "x" * 20_000}, "at most 10,000 are allowed"),
        ({"path": "x", "count": True}, "count must be of type integer, not True."),
        ({"path": "x", "count": "3"}, "count must be of type integer, not '3'."),
        ({"path": "x", "count": 2.5}, "count must be of type integer"),
        ({"path": "x", "count": 0}, "count must be at least 1"),
        ({"path": "x", "count": 51}, "count must be at most 50"),
        ({"path": "x", "count": float("inf")}, "count must be of type integer"),
        ({"path": "x", "share": float("nan")}, "share must be a finite number"),
        ({"path": "x", "kind": "three"}, "kind must be one of one, two, not 'three'."),
        ({"path": "x", "sure": 1}, "sure must be of type boolean"),
    ],
)
def test_wrong_arguments_are_told_what_is_wrong(arguments, words):
    with pytest.raises(ToolError, match=None) as raised:
        TOOL.check(arguments)
    assert words in str(raised.value)


def test_whole_numbers_may_be_written_with_a_point():
    assert TOOL.check({"path": "x", "count": 3.0})["count"] == 3


def test_the_documented_parameters_have_their_documented_defaults(tmp_path):
    evaluation, _ = RunTools(None, None, RunLimits()).tools()
    schema = evaluation.describe()["inputSchema"]
    defaults = {name: tree.get("default") for name, tree in schema["properties"].items()}
    assert defaults.items() >= {
        "dataset_path": None, "model": "gpt-5.5", "temperature": None, "evaluator": "exact_match",
        "criteria": None, "threshold": 0.7, "experiment_name": "mcp-evaluation",
    }.items()  # fmt: skip
    assert schema["required"] == ["dataset_path"]
    assert {one.name: one.default for one in LIST_PARAMETERS}["limit"] == 20
    assert "COSTS MONEY" in evaluation.description
    assert evaluation.describe()["annotations"]["readOnlyHint"] is False

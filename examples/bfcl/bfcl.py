"""The Berkeley function-calling data as data sets of dokimos.

The data is read from the package `bfcl-eval` (Apache-2.0), installed or as a downloaded wheel, and nothing of
it is kept here. Its schemas use the type names of Python; `select_cases.py` of the quickstart turns them into
JSON Schema.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jsonschema.validators import validator_for

from dokimos import Dataset, Example, ToolCall, ToolDefinition
from dokimos.evaluators import one_of

QUICKSTART = Path(__file__).parents[1] / "quickstart"
sys.path.append(str(QUICKSTART))
from select_cases import json_schema  # noqa: E402 - it is not a package

CATEGORIES = ("simple_python", "multiple", "parallel", "parallel_multiple")
LIVE_CATEGORIES = ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple")

ReadText = Callable[[str], str]
"""Reads a file of the package's folder `data`."""


def installed_data() -> ReadText | None:
    """Return what reads the data of the installed package, None where it is not installed."""
    spec = find_spec("bfcl_eval")  # the package itself is not imported: it brings in every provider
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "data"
    return lambda name: (folder / name).read_text(encoding="utf-8")


def wheel_data(path: str | Path) -> ReadText:
    """Return what reads the data of a wheel: `pip download --no-deps bfcl-eval`."""
    wheel = zipfile.ZipFile(path)
    return lambda name: wheel.read(f"bfcl_eval/data/{name}").decode()


def load(read: ReadText, category: str) -> Dataset:
    """Return the cases of a category that have an answer; the expected calls hold the accepted values."""
    return Dataset(
        [_example(row, answer, category) for row, answer in raw_rows(read, category)], name=category
    )


def raw_rows(read: ReadText, category: str) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield the rows of a category that have an answer, with it, as they stand in the data."""
    name = f"BFCL_v4_{category}.json"
    answers = {row["id"]: row["ground_truth"] for row in _rows(read(f"possible_answer/{name}"))}
    return ((row, answers[row["id"]]) for row in _rows(read(name)) if row["id"] in answers)


def committed_rows() -> Dataset:
    """Return the 70 single calls of the quickstart, with what a small model answered to each."""
    examples = []
    with (QUICKSTART / "data" / "function_calling.jsonl").open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            expected = row["expectedOutputs"]
            answer = [{expected["output"]["name"]: expected["accepted"]}]
            tools = [ToolDefinition.from_map(tool) for tool in row["metadata"]["tools"]]
            recorded = row["actualOutputs"]["output"]
            metadata = {"recorded": recorded, "category": row["metadata"]["category"]}
            examples.append(_made(row["id"], row["inputs"]["input"], answer, tools, metadata))
    return Dataset(examples, name="committed rows")


def true_calls(example: Example) -> list[ToolCall]:
    """Return the calls of the answer: of each argument the first accepted value that its schema allows."""
    tools = {tool.name: tool for tool in example.metadata["tools"]}
    return [_true_call(call, tools[call.name]) for call in example.expected_outputs["toolCalls"]]


def recorded_calls(example: Example) -> list[ToolCall]:
    """Return the call that the small model wrote; what is no call is one of a tool without a name."""
    try:
        said = json.loads(example.metadata["recorded"])
        return [ToolCall(said["name"], said.get("arguments") or {})]
    except (ValueError, TypeError, KeyError):
        return [ToolCall("(none)")]


def expected_call(name: str, answer: Mapping[str, Any]) -> ToolCall:
    """Return the expected call: the answer of the data has a list of accepted values for each argument."""
    return ToolCall(name, _accepted(answer))


def _accepted(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return accepted values as the library has them: `""` among them says that there may be none.

    Where `""` is the only one there must be none. A few maps of the data hold plain values, or an empty list,
    which is a value then.
    """
    listed = {
        name: options if isinstance(options, list) and options else [options]
        for name, options in answer.items()
    }
    return {
        name: one_of(*[_value(option) for option in options if option != ""], optional="" in options)
        for name, options in listed.items()
        if options != [""]
    }


def _value(option: Any) -> Any:
    """Maps inside an accepted value hold accepted values too."""
    if isinstance(option, dict):
        return _accepted(option)
    return [_value(element) for element in option] if isinstance(option, list) else option


def _true_call(call: ToolCall, tool: ToolDefinition) -> ToolCall:
    chosen = {}
    for name, form in call.arguments.items():
        values, optional = _choices(form)
        if optional and name not in tool.parameters:
            continue
        schema = tool.schema_of(name)
        validator = validator_for(schema)(schema)
        allowed = [value for value in values if validator.is_valid(value)]
        if allowed or not optional or name in tool.required:
            chosen[name] = (allowed or values)[0]
    return ToolCall(call.name, chosen)


def _choices(form: Mapping[str, Any]) -> tuple[list[Any], bool]:
    """Return the accepted values of an argument in their first variants, and whether it may be left out."""
    optional = "optional" in form
    values = (form["optional"] if optional else form)["one_of"]
    return [_first(value) for value in values], optional


def _first(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _choices(form)[0][0] for name, form in value.items()}
    return [_first(element) for element in value] if isinstance(value, list) else value


def _rows(text: str) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in text.splitlines())


def _example(row: Mapping[str, Any], answer: Sequence[Mapping[str, Any]], category: str) -> Example:
    tools = [
        ToolDefinition(tool["name"], tool["description"], input_schema=json_schema(tool["parameters"]))
        for tool in row["function"]
    ]
    question = "\n".join(message["content"] for message in row["question"][0])
    return _made(row["id"], question, answer, tools, {"category": category})


def _made(
    identity: str,
    question: str,
    answer: Sequence[Mapping[str, Any]],
    tools: Sequence[ToolDefinition],
    metadata: Mapping[str, Any],
) -> Example:
    calls = [expected_call(name, arguments) for call in answer for name, arguments in call.items()]
    return Example(
        {"input": question},
        {"toolCalls": calls},
        metadata={"tools": list(tools), **metadata},
        id=identity,
    )

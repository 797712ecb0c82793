"""Examples from the lines of a journal, without the general way of reading value types."""

import json

import pytest

from dokimos import Example
from dokimos._core.wire import from_json, to_json
from dokimos.errors import TypeConversionError
from dokimos.experiment._item_loading import read_example
from dokimos.experiment._journal_lines import read_outputs, with_checksum

TREES = [
    {},
    {"inputs": {"input": "a", "more": [1, {"b": None}]}},
    {"inputs": {}, "expectedOutputs": {"output": 1.5}, "metadata": {"topic": "x"}, "id": "row 1"},
    {"inputs": {"input": "a"}, "id": None},
    {"inputs": {"input": "a"}, "datasetItemId": "d1"},
    {"inputs": {"input": "a"}, "actualOutputs": {"output": 1}, "metrics": {"tokensIn": 3}},
    {"inputs": {"input": "a"}, "actualError": "ValueError: b"},
    {"inputs": {"input": "a"}, "of a newer version": {}},
    {"inputs": {"input": "a"}, "expected_outputs": {"output": "b"}},
]


@pytest.mark.parametrize("tree", TREES, ids=json.dumps)
def test_an_example_is_what_the_general_way_reads(tree):
    example = read_example(json.loads(json.dumps(tree)))
    assert example == from_json(Example, tree)
    assert to_json(example) == to_json(from_json(Example, tree))


@pytest.mark.parametrize("tree", [{"inputs": 1}, {"id": 2}, {"inputs": {}, "metadata": []}], ids=json.dumps)
def test_what_is_of_another_type_is_refused_as_the_general_way_does(tree):
    with pytest.raises(TypeConversionError) as expected:
        from_json(Example, tree)
    with pytest.raises(TypeConversionError) as refused:
        read_example(tree)
    assert str(refused.value) == str(expected.value)


@pytest.mark.parametrize(
    "members",
    [
        '"o":{"a":1},"m":{"latencyMs":0.25}',
        '"o":{"a":1}',
        '"x":{"inputs":{"a":{},"o":{"b":2}}},"o":{"a":1},"m":{"latencyMs":0.25}',
        '"x":{"inputs":{"o":{"b":2}}},"o":{"a":1}',
        '"o":{"b":2},"o":{"a":1},"m":{"latencyMs":0.25}',
        '"x":{"inputs":{"a":{},"o":{"b":2}}},"o": {"a":1},"m":{"latencyMs":0.25}',
        '"x":{"inputs":{"a":{},"o":{"b":2}}}, "o": {"a":1} ,"m":{"latencyMs":0.25}',
        '"o":{"a":1},"k":"later","m":{"latencyMs":0.25}',
    ],
)
def test_outputs_are_those_of_the_line_wherever_else_something_is_called_so(members):
    line = with_checksum(f'{{"t":"item","r":0,"i":1,"h":"0123456789abcdef",{members}'.encode())
    assert read_outputs(line) == json.loads(line)["o"] == {"a": 1}


@pytest.mark.parametrize("outputs", ["null", "[1]", '"a"'])
def test_outputs_that_are_no_map_are_refused(outputs):
    line = with_checksum(f'{{"t":"item","r":0,"i":1,"h":"0123456789abcdef","o":{outputs}'.encode())
    with pytest.raises(ValueError, match="of another type"):
        read_outputs(line)

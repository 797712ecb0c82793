from __future__ import annotations

import json

import pytest

from dokimos import CallMetrics, Dataset, Example
from dokimos.errors import ConfigurationError, DatasetError


def read(*rows: object) -> list[Example]:
    return list(Dataset.from_json(text=json.dumps({"examples": rows})))


def error_of(text: str) -> DatasetError:
    with pytest.raises(DatasetError) as caught:
        Dataset.from_json(text=text)
    return caught.value


def test_the_simple_shape():
    assert read({"input": "Hello", "expectedOutput": "Hi"}) == [Example.of("Hello", "Hi")]


def test_the_complex_shape():
    row = {
        "id": "a",
        "inputs": {"question": "?", "ids": [1, 2]},
        "expectedOutputs": {"answer": "!", "confidence": 0.95},
        "metadata": {"category": "technical"},
        "actualOutputs": {"answer": "no"},
        "metrics": {"tokensIn": 3, "latencyMs": 1.5},
    }
    assert read(row) == [
        Example(
            {"question": "?", "ids": [1, 2]},
            {"answer": "!", "confidence": 0.95},
            metadata={"category": "technical"},
            id="a",
            actual_outputs={"answer": "no"},
            metrics=CallMetrics(3, latency_ms=1.5),
        )
    ]


def test_snake_case_names_are_read_too():
    row = {"input": "q", "expected_output": "e", "actual_output": "a", "metrics": {"tokens_in": 1}}
    assert read(row) == [
        Example({"input": "q"}, {"output": "e"}, actual_outputs={"output": "a"}, metrics=CallMetrics(1))
    ]


def test_both_spellings_of_one_name_are_refused():
    text = '{"examples": [\n{"input": "q", "expectedOutput": "a", "expected_output": "a"}]}'
    assert "'expectedOutput' is given twice" in str(error_of(text))


@pytest.mark.parametrize("value", [None, 0, False, 1.5, [], {}, {"a": [1]}])
def test_the_short_form_holds_any_value(value):
    assert read({"input": value, "expectedOutput": value}) == [Example({"input": value}, {"output": value})]


def test_the_short_form_counts_only_where_the_map_is_absent_or_empty():
    row = {"inputs": {"a": 1}, "input": "short", "expectedOutputs": {}, "expectedOutput": "short"}
    assert read(row) == [Example({"a": 1}, {"output": "short"})]


def test_null_maps_are_absent_and_null_values_are_kept():
    row = {"inputs": {"a": None}, "expectedOutputs": None, "metadata": None, "id": None, "metrics": None}
    assert read(row) == [Example({"a": None})]


def test_empty_inputs_are_allowed_when_they_are_given():
    assert read({"inputs": {}}) == [Example()]


def test_a_short_null_is_no_recorded_output():
    assert read({"input": "q", "actualOutput": None})[0].actual_outputs is None
    assert read({"input": "q", "actualOutput": ""})[0].actual_outputs == {"output": ""}
    assert read({"input": "q", "actualOutputs": {}})[0].actual_outputs == {}


def test_unknown_members_become_metadata():
    row = {"input": "q", "comment": "x", "metadata": {"topic": "t", "same": 1}, "same": 1, "output": None}

    metadata = {"topic": "t", "same": 1, "comment": "x", "output": None}
    assert read(row) == [Example({"input": "q"}, metadata=metadata)]


def test_a_member_that_is_in_the_metadata_too_with_another_value_is_refused():
    error = error_of('[{"input": "q"},\n{"input": "q", "topic": 1, "metadata": {"topic": 2}}]')

    assert (error.line, "'topic' is a member of this row and of its 'metadata'" in str(error)) == (2, True)


def test_a_slip_of_a_known_name_is_refused_with_its_line():
    error = error_of('{"examples": [{"input": "a"},\n{"input": "q", "expected_outptu": "x"}]}')

    assert (error.line, "Did you mean 'expected_output'?" in str(error)) == (2, True)


def test_a_slip_can_be_kept():
    columns = {"ground_thruth": "metadata.ground_thruth"}
    text = '[{"input": "q", "ground_thruth": 1}]'

    assert Dataset.from_json(text=text, columns=columns)[0].metadata == {"ground_thruth": 1}


@pytest.mark.parametrize("metrics", [3, "latency", ["a"], {"accuracy": 0.9}])
def test_metrics_of_something_else_are_metadata(metrics):
    assert read({"input": "q", "metrics": metrics}) == [Example.of("q", metrics=metrics)]


def test_what_has_our_name_is_metadata_where_the_user_has_named_another_member():
    row = '"input": "q", "answer": "a", "actualOutput": "b", "metrics": {"tokensIn": 1}, "m": {"tokensIn": 2}'
    text = f"[{{{row}}}]"
    columns = {"answer": "actual_output", "m": "metrics"}

    (example,) = Dataset.from_json(text=text, columns=columns)

    assert (example.actual_outputs, example.metrics.tokens_in) == ({"output": "a"}, 2)
    assert example.metadata == {"actualOutput": "b", "metrics": {"tokensIn": 1}}


def test_rows_with_the_same_names_are_looked_at_once_and_others_again():
    text = '{"input": "q", "topic": 1}\n{"input": "q", "topic": 2}\n{"input": "q", "grond_truth": 2}'

    with pytest.raises(DatasetError) as caught:
        Dataset.from_jsonl(text=text)

    assert caught.value.line == 3


@pytest.mark.parametrize(("id", "expected"), [("a", "a"), (7, "7"), (None, None), ("", None)])
def test_ids_are_texts(id, expected):
    assert read({"input": "q", "id": id})[0].id == expected


@pytest.mark.parametrize("id", [[1], {}, 1.5, True])
def test_an_id_of_another_kind_is_refused(id):
    text = json.dumps([{"input": "q", "id": id}])
    assert "'id' must be a text or a whole number" in str(error_of(text))


def test_name_and_description_are_read_wherever_they_stand():
    dataset = Dataset.from_json(text='{"description": "d", "examples": [{"input": "q"}], "name": "n"}')
    assert (dataset.name, dataset.description) == ("n", "d")


def test_without_a_name_a_text_is_unnamed_and_a_file_has_its_stem(tmp_path):
    path = tmp_path / "support.v1.json"
    path.write_text('{"examples": []}')
    assert Dataset.from_json(text='{"examples": []}').name == "unnamed"
    assert Dataset.from_json(path).name == "support.v1"
    assert Dataset.from_json(path, name="mine").name == "mine"


def test_a_bare_array_is_read_too():
    assert len(Dataset.from_json(text='[{"input": "a"}, {"input": "b"}]')) == 2


def test_a_byte_order_mark_is_ignored():
    assert len(Dataset.from_json(text='\ufeff[{"input": "a"}]')) == 1


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('{\n"examples": [\n{"input": 1,\n"input": 2}]}', 4, "'input' is given twice"),
        ('{\n"examples": [\n{"inputs": {"a":\n{"b": 1,\n"b": 2}}}]}', 5, "'b' is given twice"),
        ('{\n"examples": [],\n"examples": []}', 3, "'examples' is given twice"),
        ('[{"input":\nNaN}]', 2, "NaN is not a JSON value"),
        ('[{"input":\n[1,\n-Infinity]}]', 3, "-Infinity is not a JSON value"),
        ('[{"input":\n1e999}]', 2, "too large"),
        ('[{"input":\n' + "9" * 5000 + "}]", 2, "more than 4300 digits"),
        ('[{"input": 1}]\n\n x', 3, "Text after the end"),
        ('[{"input": 1},\n]', 2, "take away the comma"),
        ('[\n{"input": "a\n"}]', 2, "must not contain line breaks"),
        ('{"examples": [\n{"input": "a"}\n', 3, "the file ends"),
        ('{\n"name": 3, "examples": []}', 2, "'name' must be a text"),
        ('{"name": "n",\n"examples": {}}', 2, '"examples" must be an array'),
        ("{a: 1}", 1, "key in double quotes"),
        ("[" * 100_000, 1, "nested too deeply"),
        ('[{"input": ' + "[" * 100_000, 1, "nested too deeply"),
        ('[{"input": "\\ud8"}]', 1, "four hexadecimal digits"),
        ('"text"', 1, "Expected an object"),
        ("", 1, "but it is empty"),
    ],
)
def test_what_is_not_strict_json_is_refused_with_its_line(text, line, message):
    error = error_of(text)
    assert message in str(error)
    assert error.line == line


def test_an_object_without_examples_says_what_it_has():
    assert (
        str(error_of('{"name": "n", "rows": []}'))
        == 'line 1: The object has no array "examples". It has name, rows.'
    )
    assert 'no array "examples"' in str(error_of("{}"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("text", "Expected an object with an input, found the text"),
        ([1], "found an array"),
        (None, "found null"),
        ({"inputs": "q"}, "'inputs' must be an object, not the text"),
        ({"inputs": [1]}, "'inputs' must be an object, not an array"),
        ({"inputs": ""}, "'inputs' must be an object"),
        ({"input": "q", "expectedOutputs": "a"}, "'expectedOutputs' must be an object"),
        ({"input": "q", "actualOutputs": 0}, "'actualOutputs' must be an object, not 0"),
        ({"input": "q", "metadata": ["a"]}, "'metadata' must be an object"),
        ({"input": "q", "metrics": {"tokensIn": "many"}}, "tokensIn"),
        ({}, "no 'input' and no 'inputs'"),
    ],
)
def test_a_row_of_a_wrong_shape_is_refused_with_its_line(row, message):
    text = '{"examples": [{"input": "fine"},\n\n' + json.dumps(row) + "]}"
    error = error_of(text)
    assert message in str(error)
    assert error.line == 3


def test_errors_start_with_file_and_line(tmp_path):
    path = tmp_path / "d.json"
    path.write_text('[{"input": 1},\n{"input": 2, "input": 3}]')
    with pytest.raises(DatasetError) as caught:
        Dataset.from_json(path)
    assert str(caught.value).startswith(f"{path}:2: ")


def test_invalid_utf8_is_named_with_line_and_byte(tmp_path):
    path = tmp_path / "d.json"
    path.write_bytes(b'[\n{"input": "caf\xe9"}]')
    with pytest.raises(DatasetError, match=r":2: Not valid UTF-8: byte 0xe9 at position 15"):
        Dataset.from_json(path)


def test_long_values_and_many_rows_cross_the_pieces_in_which_a_file_is_read():
    rows = [{"input": "x" * (i * 997 % 100_000) + "ü\n\\", "id": i, "expectedOutput": i} for i in range(60)]
    for indent in (None, 2):
        text = json.dumps({"examples": rows}, indent=indent)
        dataset = Dataset.from_json(text=text)
        assert [e.inputs["input"] for e in dataset] == [row["input"] for row in rows]
        assert [e.expected_outputs["output"] for e in dataset] == list(range(60))


def test_the_line_is_right_behind_many_pieces():
    rows = ",\n".join(json.dumps({"input": "y" * 999}) for _ in range(500))
    assert error_of(f'[\n{rows},\n{{"input": }}]').line == 502


def test_an_error_at_the_start_is_found_without_reading_all_of_the_file(tmp_path):
    path = tmp_path / "big.json"
    path.write_bytes(b'[{"input": oops},' + b'{"input": "x"},' * 50_000 + b"\xff")
    with pytest.raises(DatasetError, match="a value is expected here"):
        Dataset.from_json(path)


@pytest.mark.parametrize("rest", ["NaNt}}", "1e999x}]}", "-Infinity]]]", "9" * 5000 + "x}}}"])
def test_what_is_refused_in_broken_text_is_a_fault_with_its_line(rest):
    error = error_of('{"examples": [{"input": "a"},\n{"input":\n' + rest)

    assert error.line == 3


def test_a_broken_line_of_jsonl_with_a_refused_value_is_named():
    with pytest.raises(DatasetError) as caught:
        Dataset.from_jsonl(text='{"input": "a"}\n{"a":NaNt}}\n')

    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (Dataset.from_json, '{"examples": []}'),
        (Dataset.from_json, ' [{"input": "a"}]'),
        (Dataset.from_jsonl, '{"input": "a"}'),
        (Dataset.from_csv, "input,output\na,b"),
    ],
)
def test_data_in_the_place_of_a_path_is_refused_with_the_way_to_give_it(read, data):
    with pytest.raises(ConfigurationError, match=r"looks like the data itself; write text=\.\.\."):
        read(data)


def test_a_path_may_look_like_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "[1].json").write_text('[{"input": "a"}]')
    assert len(Dataset.from_json("[1].json")) == 1

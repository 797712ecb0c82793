from __future__ import annotations

import gzip
import json

import pytest

from dokimos import CallMetrics, Dataset, Example
from dokimos.datasets._csv_records import CsvRecords
from dokimos.errors import DatasetError


def read(text: str, **options) -> list[Example]:
    return list(Dataset.from_csv(text=text, **options))


def error_of(text: str, **options) -> DatasetError:
    with pytest.raises(DatasetError) as caught:
        Dataset.from_csv(text=text, **options)
    return caught.value


def inputs(text: str) -> list[object]:
    return [example.inputs.get("input") for example in read(text)]


def test_input_expected_output_and_metadata():
    text = 'input,expectedOutput,category\nHow do I quote?,"Like ""this""",support\n'
    assert read(text) == [Example.of("How do I quote?", 'Like "this"', category="support")]


@pytest.mark.parametrize(
    "header", ["expectedOutput", "expected_output", "output", "EXPECTEDOUTPUT", "Output"]
)
def test_the_names_of_the_expected_output(header):
    assert read(f"INPUT,{header}\nq,a") == [Example.of("q", "a")]


def test_the_left_most_expected_output_wins_and_the_others_are_metadata():
    assert read("input,output,expectedOutput\nq,a,b") == [Example.of("q", "a", expectedOutput="b")]


def test_a_column_of_ids():
    assert [e.id for e in read("id,input\n7,a\n,b\n")] == ["7", None]


@pytest.mark.parametrize("header", ["actual_output", "actualOutput", "ACTUAL_OUTPUT"])
def test_recorded_outputs(header):
    assert read(f"input,{header}\nq,a")[0].actual_outputs == {"output": "a"}


def test_metrics_are_json():
    text = 'input,metrics\nq,"{""tokensIn"": 3}"\nq,\n'
    assert [e.metrics for e in read(text)] == [CallMetrics(3), None]
    assert "'metrics' must hold a JSON object" in str(error_of('input,metrics\nq,"{""tokensIn"": 3"'))
    assert "'metrics' cannot be read" in str(error_of('input,metrics\nq,"{""tokensIn"": ""many""}"'))


@pytest.mark.parametrize("cell", ["many", "[1, 2]", '{"accuracy": 0.9}', "0.5"])
def test_a_column_metrics_of_something_else_is_metadata(cell):
    quoted = '"' + cell.replace('"', '""') + '"'

    assert read(f"input,metrics\nq,{quoted}") == [Example.of("q", metrics=cell)]


def test_a_column_actual_output_is_metadata_where_another_one_is_the_output():
    (example,) = read("input,answer,actual_output,metrics,m\nq,a,b,c,", columns={"answer": "actual_output"})

    assert example.actual_outputs == {"output": "a"}
    assert example.metadata == {"actual_output": "b", "metrics": "c", "m": ""}


@pytest.mark.parametrize(
    ("column", "key"),
    [
        ("ground_thruth", "ground_truth"),
        ("groundtruth", "ground_truth"),
        ("expected_outptu", "expected_output"),
        ("Expected Output", "expected_output"),
        ("actual-ouput", "actual_output"),
        ("tool_cals", "tool_calls"),
        ("expectedTolls", "expected_tools"),
        ("retreival_context", "retrieval_context"),
    ],
)
def test_a_slip_of_a_known_name_is_refused_and_can_be_kept(column, key):
    text = f"input,{column}\nq,a\n"
    error = error_of(text)

    assert (error.line, f"Did you mean {key!r}?" in str(error)) == (1, True)
    assert f"columns={{{column!r}: 'metadata.{column}'}}" in str(error)
    assert read(text, columns={column: f"metadata.{column}"}) == [Example.of("q", **{column: "a"})]


@pytest.mark.parametrize(
    "column", ["date", "page", "content", "answers", "ground_truth", "groundTruth", "toolCalls", "outputs"]
)
def test_a_name_of_its_own_is_metadata_without_a_word(column):
    assert read(f"input,{column}\nq,a\n") == [Example.of("q", **{column: "a"})]


@pytest.mark.parametrize("column", ["expected_output2", "ground_truths", "retrieved_contexts"])
def test_of_a_near_name_there_is_one_warning(column):
    with pytest.warns(UserWarning, match=f"{column!r} becomes metadata; it is similar to") as caught:
        read(f"input,{column}\nq,a\nr,b\n")

    assert len(caught) == 1


@pytest.mark.parametrize("column", ["expected", "Expected Answer", "correct_answer"])
def test_a_name_that_means_the_expected_output_is_warned_of_where_there_is_none(column):
    with pytest.warns(
        UserWarning, match=f"{column!r} becomes metadata, and the row has no expected"
    ) as caught:
        examples = read(f"input,{column}\nq,a\nr,b\n")

    assert len(caught) == 1
    assert examples[0] == Example({"input": "q"}, metadata={column: "a"})
    assert f"columns={{{column!r}: 'expected_output'}}" in str(caught[0].message)
    mapped = read(f"input,{column}\nq,a", columns={column: "expected_output"})
    assert mapped == [Example.of("q", "a")]


@pytest.mark.parametrize("header", ["expected_output", "output", "expectedOutputs.answer", "ExpectedOutput"])
def test_beside_an_expected_output_it_is_metadata_like_any_other(header):
    assert read(f"input,expected,{header}\nq,a,b")[0].metadata == {"expected": "a"}


def test_rows_that_say_expected_are_warned_of_in_each_format(tmp_path):
    rows = [{"input": "q", "expected": "a"}]
    (tmp_path / "d.jsonl").write_text(json.dumps(rows[0]))
    (tmp_path / "d.json").write_text(json.dumps(rows))
    for load in (
        lambda: Dataset.load(tmp_path / "d.jsonl"),
        lambda: Dataset.load(tmp_path / "d.json"),
        lambda: Dataset.from_rows(rows),
    ):
        with pytest.warns(UserWarning, match="'expected' becomes metadata, and the row has no expected"):
            assert load()[0].metadata == {"expected": "a"}


def test_a_column_of_a_whole_map_is_added_to_the_columns_of_its_keys():
    text = (
        'id,inputs.a,inputs,expectedOutputs,metadata\n1,x,"{""b"": [1], """": null}","{""c"": 2}",\n2,,{},,\n'
    )

    first, second = read(text)

    assert first == Example({"a": "x", "b": [1], "": None}, {"c": 2}, id="1")
    assert second == Example({"a": ""}, id="2")


def test_a_column_of_a_whole_map_fills_what_is_empty_in_the_column_of_a_key_and_replaces_nothing():
    assert read('inputs.a,inputs\n,"{""a"": 3}"')[0].inputs == {"a": 3}
    assert "both have the key 'a'" in str(error_of('inputs.a,inputs\nx,"{""a"": 3}"'))


@pytest.mark.parametrize("cell", ["text", "[1]", '"{""a"": "', "7"])
def test_a_map_must_be_an_object_and_a_column_called_metadata_may_hold_a_text(cell):
    assert "The column 'inputs' must hold a JSON object" in str(error_of(f"inputs\n{cell}"))
    assert "The column 'expectedOutputs' must" in str(error_of(f"input,expectedOutputs\nq,{cell}"))
    [example] = read(f"input,metadata\nq,{cell}")
    assert list(example.metadata) == ["metadata"]


def test_a_name_is_no_slip_beside_the_name_itself():
    assert read("input,expectedOutput,expected_outptu\nq,a,b")[0].metadata == {"expected_outptu": "b"}
    assert read("input,gold,expected_outptu\nq,a,b", columns={"gold": "expected_output"})[0].metadata == {
        "expected_outptu": "b"
    }


def test_all_values_are_texts_and_empty_cells_are_empty_texts():
    assert read("input,output,n\n1,,2.50") == [Example.of("1", "", n="2.50")]


def test_unquoted_cells_are_trimmed_and_quoted_ones_kept():
    assert read('input,output, topic \n  a b  ," a b ",\t"x"  ') == [Example.of("a b", " a b ", topic="x")]


def test_a_quoted_cell_holds_delimiters_line_breaks_and_quotes():
    assert inputs('input\n"a,b"\n"c\nd"\n"e\r\nf"\n"g\rh"\n"""i"""\n') == [
        "a,b",
        "c\nd",
        "e\r\nf",
        "g\rh",
        '"i"',
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_ends_a_record(end):
    assert inputs(end.join(["input,output", "a,1", "b,2", ""])) == ["a", "b"]


def test_blank_records_are_skipped_and_records_of_delimiters_kept():
    assert inputs("input,output\n\na,1\n   \n,\n\n") == ["a", ""]


def test_a_quoted_empty_cell_is_a_record():
    assert inputs('input\n""\n') == [""]


def test_a_quote_inside_an_unquoted_cell_is_a_character():
    assert inputs('input,x\n5" pipe,1\n') == ['5" pipe']


def test_short_records_lack_cells_and_long_ones_lose_them():
    assert read("input,output,topic\nq\nq,a,t,surplus\n") == [
        Example.of("q"),
        Example.of("q", "a", topic="t"),
    ]


def test_a_byte_order_mark_is_ignored():
    assert inputs("\ufeffinput\na\n") == ["a"]
    assert inputs('\ufeff"input"\na\n') == ["a"]


def test_another_delimiter():
    assert read("input;output\na,b;c\n", delimiter=";") == [Example.of("a,b", "c")]
    assert read('input\toutput\n\tb\n"x\ty"\tc\n', delimiter="\t") == [
        Example.of("", "b"),
        Example.of("x\ty", "c"),
    ]


@pytest.mark.parametrize("delimiter", ["", ",,", '"', "\n"])
def test_an_impossible_delimiter_is_refused(delimiter):
    assert "delimiter" in str(error_of("input\na", delimiter=delimiter))


def test_a_header_alone_is_an_empty_dataset():
    assert read("input,output\n") == []


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff"])
def test_no_header_is_refused(text):
    assert "no header" in str(error_of(text))


def test_a_missing_input_column_lists_the_columns_found():
    message = str(error_of("\nquestion,ground_truth,answer,id\na,b,c,d"))
    assert message.startswith(
        "line 2: There is no column 'input'. It has: 'question', 'ground_truth', 'answer', 'id'."
    )
    assert (
        "columns={'question': 'input', 'ground_truth': 'expected_output', 'answer': 'actual_output'}"
        in message
    )


@pytest.mark.parametrize(
    "header", ["input,input", "input,topic,topic", "input,actual_output,actualOutput", "input,id,ID"]
)
def test_two_columns_of_one_meaning_are_refused(header):
    assert "both mean" in str(error_of(f"{header}\n"))


def test_columns_without_a_name_are_left_out():
    assert read(",input,\n0,q,x") == [Example.of("q")]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('input\na\n"b\nc\n', 3, "never closed"),
        ('input\n\n"a"b\n', 3, "Text after a closing quote: b"),
        ('input\n"a\nb" c,d\n', 3, "Text after a closing quote: c"),
        ('"input', 1, "never closed"),
    ],
)
def test_broken_quotes_are_refused_with_their_line(text, line, message):
    error = error_of(text)
    assert message in str(error)
    assert error.line == line


def test_an_error_in_a_row_names_the_line_on_which_the_record_starts():
    error = error_of('input,metrics\n"a\nb",\n"c\nd",{x\n')
    assert error.line == 4


def test_invalid_utf8_is_named_with_its_line(tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes(b"input\na\nb\xe9\n")
    with pytest.raises(DatasetError, match=r"d.csv:3: Not valid UTF-8: byte 0xe9"):
        Dataset.from_csv(path)


def test_the_name_is_the_stem(tmp_path):
    path = tmp_path / "a.csv.csv"
    path.write_text("input\n")
    assert Dataset.from_csv(path).name == "a.csv"


def test_the_name_is_the_stem_in_capitals_too(tmp_path):
    path = tmp_path / "A.CSV.GZ"
    path.write_bytes(gzip.compress(b"input\na\n"))
    assert Dataset.load(str(path)).name == "A"


def test_columns_give_names_a_meaning():
    text = "Question,truth,topic,ctx,x\nq,a,t,c,1\n"
    columns = {
        "question": "input", "truth": "expected_output", "topic": "metadata.subject", "ctx": "inputs.context",
    }  # fmt: skip
    assert read(text, columns=columns) == [
        Example({"input": "q", "context": "c"}, {"output": "a"}, metadata={"subject": "t", "x": "1"})
    ]


def test_a_mapped_expected_output_leaves_output_to_the_metadata():
    assert read("input,output,gold\nq,o,g", columns={"gold": "expected_output"}) == [
        Example({"input": "q"}, {"output": "g"}, metadata={"output": "o"})
    ]


def test_output_can_be_named_as_the_recorded_one():
    example = read("input,output\nq,o", columns={"output": "actual_output"})[0]
    assert example == Example({"input": "q"}, actual_outputs={"output": "o"})


def test_a_mapped_column_that_is_not_there_is_refused():
    assert "names 'quest', which is not a column" in str(error_of("input\nq", columns={"quest": "input"}))


def test_a_whole_map_is_read_as_json():
    assert read('q,input\n"{""a"": 1}",x', columns={"q": "metadata"})[0].metadata == {"a": 1}


def test_a_long_quoted_cell_takes_linear_time():
    text = 'input\n"' + "line\n" * 100_000 + '"\n'
    assert len(inputs(text)[0]) == 500_000


def test_a_record_of_a_source_that_waits_is_read_before_the_next_one_comes():
    lines = iter(['5" screen,dim\n', "later\n"])
    records = CsvRecords(lines, ",", None)
    assert list(records.read_singly(records.take_lines(1))) == [['5" screen', "dim"]]
    assert next(lines) == "later\n"


def test_few_long_lines_are_in_memory_at_once_also_behind_short_ones():
    lines = iter(["short,1\n"] * 63 + [f"{'long' * 50_000},2\n"] * 64)
    assert len(CsvRecords(lines, ",", None).take_lines(128)) < 80

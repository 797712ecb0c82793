"""Exports of DeepEval, Ragas, Langfuse and Phoenix, in each of their formats, as data sets."""

import json
import random
import shutil
from pathlib import Path

import pytest

from dokimos import Dataset, evaluate, recorded_task
from dokimos._cli.main import run_command
from dokimos.evaluators import ExactMatch, ToolCorrectness, Trajectory

DATA = Path(__file__).parents[3] / "data" / "importers"
ODD = (None, 1, 0.5, True, "", "[", "[1]", [], [1], {}, {"a": 1}, [{}], [{"role": "user"}], "\ud83d", 10**30)
CALLS = [{"name": "weather", "arguments": {"city": "Oslo"}, "result": "4"}]


@pytest.fixture
def run_import(tmp_path, capsys):
    """Import a file and return its data set and what the command printed."""

    def run(tool, file, *options, output="data.jsonl"):
        target = tmp_path / output
        code = run_command(["import", tool, str(DATA / file), "-o", str(target), "--force", *options])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return Dataset.load(target), captured.out

    return run


def outputs_of(example):
    return {key: value for key, value in example.actual_outputs.items() if key != "reasoningSteps"}


@pytest.mark.parametrize("file", ["deepeval_goldens.json", "deepeval_goldens.csv"])
def test_goldens_have_their_answers_contexts_calls_and_metadata(run_import, file):
    (first, second), printed = run_import("deepeval", file)

    assert first.input == "Weather in Oslo?"
    assert first.expected_outputs["output"] == first.actual_outputs["output"] == "4 degrees"
    assert first.actual_outputs["contexts"] == ["Oslo: 4 degrees", "Bergen: 7 degrees"]
    assert first.actual_outputs["toolCalls"][0]["arguments"] == {"city": "Oslo"}
    assert first.metadata == {
        "context": ["It is 4 degrees in Oslo."], "name": "oslo", "source_file": "weather.md",
        "topic": "north", "owner": "ann", "additional_metadata": {"name": "another"},
    }  # fmt: skip
    assert second.actual_outputs is None
    assert "not converted: 'description' of calls of tools" in printed


def test_goldens_that_carry_answers_can_be_scored(run_import):
    dataset, _ = run_import("deepeval", "deepeval_goldens.json")
    recorded = dataset.filter(lambda example: example.actual_outputs is not None)

    result = evaluate(recorded, recorded_task(), [ExactMatch(), ToolCorrectness(match="names_and_args")])

    assert result.pass_rate == 1.0


def test_conversational_goldens_are_scenarios_and_recorded_conversations(run_import):
    (booked, left), printed = run_import("deepeval", "deepeval_conversations.jsonl")

    assert booked.inputs == {"input": "A guest books a room.", "persona": "In a hurry"}
    assert booked.expected_output == "The room is booked."
    assert booked.actual_outputs["toolCalls"][0]["result"] == "ok"
    assert left.actual_outputs is None
    assert "'retrieval_context' of turns" in printed


@pytest.mark.parametrize(
    ("tool", "file"), [("deepeval", "deepeval_conversations.jsonl"), ("ragas", "ragas_conversations.jsonl")]
)
def test_recorded_conversations_can_be_judged(run_import, tool, file):
    dataset, _ = run_import(tool, file)
    judge = Trajectory(criteria=["goal_completion"], judge=lambda prompt: '{"score": 1, "reason": "Booked."}')

    result = evaluate(Dataset([dataset[0]]), recorded_task(), [judge])

    assert result.error_count == 0


def test_a_test_run_has_its_scores_as_metadata(run_import):
    (case,), printed = run_import("deepeval", "deepeval_test_run.json")

    assert case.metadata["scores"]["Answer Relevancy"]["score"] == 0.9
    assert case.actual_outputs["contexts"] == ["Oslo: 4 degrees"]
    assert "changed: scores of metrics" in printed


@pytest.mark.parametrize("file", ["ragas_samples.jsonl", "ragas_samples.csv"])
def test_samples_have_their_contexts_and_reference(run_import, file):
    (first, second), _ = run_import("ragas", file)

    assert first.input == "When was Acme founded?"
    assert first.expected_output == "Acme was founded in 1998."
    assert first.actual_outputs == {"output": "In 1998.", "contexts": ["Acme was founded in 1998."]}
    assert first.metadata["reference_contexts"] == ["Acme: 1998"]
    if file.endswith("csv"):
        assert first.metadata["scores"] == {"faithfulness": 0.75}
        assert second.actual_outputs["contexts"] == ["Ann founded Acme.", "It's in Oslo."]
    else:
        assert second.actual_outputs is None


def test_results_of_tools_go_to_the_calls_in_their_order(run_import):
    (example,), _ = run_import("ragas", "ragas_conversations.jsonl")

    calls = [(call["name"], call["result"]) for call in example.actual_outputs["toolCalls"]]
    assert calls == [("find", "4 is free"), ("book", "ok")]
    assert example.expected_outputs["toolCalls"] == [{"name": "book", "arguments": {"room": 4}}]


@pytest.mark.parametrize("file", ["langfuse_items.json", "langfuse_items.csv"])
def test_items_of_langfuse_keep_their_keys_unless_one_is_chosen(run_import, file):
    dataset, printed = run_import("langfuse", file)
    chosen, _ = run_import("langfuse", file, "--input-key", "question", "--output-key", "answer")

    assert [example.id for example in dataset] == ["item-1", "item-3"]
    assert dataset[0].inputs == {"question": "Capital of France?"}
    assert dataset[0].metadata == {"datasetName": "capitals", "sourceTraceId": "t1", "level": "easy"}
    assert dataset[1].metadata["metadata"] == "checked"
    assert "not converted: an archived item" in printed
    assert "--output-key names the one to compare (2 times)" in printed
    assert (chosen[0].input, chosen[0].expected_output) == ("Capital of France?", "Paris")


def test_traces_of_langfuse_are_recorded_rows_with_scores(run_import):
    (paris, failed), printed = run_import(
        "langfuse", "langfuse_traces.csv", "--scores", str(DATA / "langfuse_scores.csv")
    )

    assert (paris.id, paris.input, paris.actual_outputs) == ("t1", "Capital of France?", {"output": "Paris"})
    assert (paris.metrics.tokens_in, paris.metrics.cost_usd) == (10, 0.002)
    assert paris.metadata["scores"] == {
        "helpful": {"value": 1},
        "correct": {"value": 1.0, "comment": "Checked by Bo."},
        "tone": {"value": "friendly"},
    }
    assert failed.actual_error is not None
    assert "a score that does not belong to a trace" in printed
    assert "the column 'helpful', which has lists, is a score" in printed


@pytest.mark.parametrize(
    ("tool", "file"), [("langfuse", "langfuse_trace.json"), ("phoenix", "phoenix_spans.jsonl")]
)
def test_a_trace_has_its_calls_tokens_and_latency(run_import, tool, file):
    (example,), _ = run_import(tool, file)

    assert example.input == "Weather in Oslo?"
    assert outputs_of(example) == {"output": "4 degrees", "toolCalls": CALLS}
    assert (example.metrics.tokens_in, example.metrics.tokens_out) == (10, 3)
    assert example.metrics.latency_ms == 2000


def test_spans_of_phoenix_are_the_same_in_every_format(run_import, tmp_path):
    pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    rows = [json.loads(line) for line in (DATA / "phoenix_spans.jsonl").read_text().splitlines()]
    frame = pandas.DataFrame(rows)
    for time in ("start_time", "end_time"):
        frame[time] = pandas.to_datetime(frame[time], format="ISO8601")
    frame.to_parquet(tmp_path / "spans.parquet")
    frame.to_csv(tmp_path / "spans.csv", index=False)

    expected, _ = run_import("phoenix", "phoenix_spans.jsonl")
    for file in ("spans.parquet", "spans.csv"):
        found, _ = run_import("phoenix", tmp_path / file)
        assert found == expected, file


@pytest.mark.parametrize("file", ["phoenix_dataset.json", "phoenix_dataset.csv"])
def test_data_sets_of_phoenix(run_import, file):
    (first, _), _ = run_import("phoenix", file, "--input-key", "question", "--output-key", "answer")

    assert first.inputs == {"input": "Capital of France?", "language": "en"}
    assert first.expected_output == "Paris"
    assert first.metadata == {"level": "easy", "tags": ["asia", "smoke"]}


def test_messages_for_openai_have_the_answer_as_expected_output(run_import):
    examples, printed = run_import("phoenix", "phoenix_evals.jsonl")

    assert [example.expected_output for example in examples] == ["Paris", "Tokyo"]
    assert "changed: the last message, of the assistant, is the expected output" in printed


@pytest.mark.parametrize("output", ["data.json", "data.parquet", "data.jsonl.gz"])
def test_other_formats_hold_the_same(run_import, output):
    plain, _ = run_import("ragas", "ragas_samples.jsonl")

    assert list(run_import("ragas", "ragas_samples.jsonl", output=output)[0]) == list(plain)


@pytest.mark.parametrize(
    ("tool", "name", "text", "message"),
    [
        ("deepeval", "a.json", '[\n {"input": "a"},\n {"input": 3}]', "a.json:3: 'input' must be a text"),
        ("deepeval", "a.json", '[{"name": "a"}]', "There is no 'input'"),
        ("deepeval", "a.json", "[1]", "Expected an object, found 1"),
        ("deepeval", "a.json", '[{"input": "a", "context": "x", "context": "y"}]', "given twice"),
        ("deepeval", "a.json", '[{"input": "a", "actual_output": "b", "actualOutput": "c"}]', "different"),
        ("deepeval", "a.json", '[{"input": "a", "retrieval_context": [4]}]', "a list of texts, not of 4"),
        ("deepeval", "a.jsonl", '{"input": "a"}\n{"input": "b", "tools_called": [{}]}', ":2: A call in"),
        ("deepeval", "a.jsonl", '{"input": "a"}\n{"input": ', "a.jsonl:2: Not valid JSON"),
        ("deepeval", "a.jsonl", '{"scenario": "a", "turns": [{"role": "bot"}]}', "Turn 1 of 'turns'"),
        ("deepeval", "a.csv", "input,input\na,b\n", "There are two columns 'input'"),
        ("deepeval", "a.csv", 'input,additional_metadata\na,"{x"\n', "a.csv:2: 'additional_metadata'"),
        ("deepeval", "a.json", '{"goldens": [{"input": "a"}],}', "Expected a key in double quotes"),
        ("langfuse", "a.json", '[{"id": "a", "timestamp": "t", "input": "x", "scores": 5}]', "'scores' must"),
        ("deepeval", "a.json", "[]", "There is nothing to import"),
        ("ragas", "a.csv", "user_input,retrieved_contexts\na,['b' 'c']\n", "no commas between them"),
        ("ragas", "a.jsonl", '{"response": "a"}', "There is no 'user_input'"),
        ("ragas", "a.jsonl", '{"user_input": [{"type": "bot", "content": "a"}]}', "Message 1 of"),
        ("ragas", "a.jsonl", '{"user_input": [{"type": "tool", "content": "a"}]}', "no call comes"),
        ("langfuse", "a.json", '[{"id": "a", "expectedOutput": "b"}]', "The item has no 'input'"),
        ("langfuse", "a.json", '[{"traceId": "a", "name": "b", "value": 1}]', "Give the file of its traces"),
        ("langfuse", "a.json", '[{"id": "a", "cost": 1}]', "neither an item of a data set nor a trace"),
        ("langfuse", "a.json", '[{"id": "a", "traceId": "t", "startTime": "soon"}]', "be a time"),
        ("phoenix", "a.jsonl", '{"name": "a", "context.trace_id": "t"}', "must have 'context"),
        ("phoenix", "a.jsonl", '{"question": "a"}', "neither an example of a data set nor a span"),
        ("phoenix", "a.csv", "example_id,input_a\nx,1\nx,2\n", "The id 'x' is given twice"),
    ],
)  # fmt: skip
def test_an_export_that_is_not_understood_says_where_and_writes_nothing(
    tmp_path, capsys, tool, name, text, message
):
    (tmp_path / name).write_text(text, encoding="utf-8")
    target = tmp_path / "out.jsonl"

    code = run_command(["import", tool, str(tmp_path / name), "-o", str(target)])

    assert code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_existing_file_is_kept_unless_forced(tmp_path, capsys):
    target = tmp_path / "data.jsonl"
    target.write_text("mine")
    arguments = ["import", "ragas", str(DATA / "ragas_samples.jsonl"), "-o", str(target)]

    assert run_command(arguments) == 2
    assert target.read_text() == "mine"
    assert run_command([*arguments, "--force"]) == 0


def test_strict_fails_where_something_was_not_taken_over(tmp_path):
    shutil.copy(DATA / "langfuse_items.json", tmp_path / "items.json")
    arguments = ["import", "langfuse", str(tmp_path / "items.json"), "-o", str(tmp_path / "out.jsonl")]

    assert run_command([*arguments, "--strict"]) == 1
    assert (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("tool", ["deepeval", "ragas", "langfuse", "phoenix"])
def test_help_has_an_example(tool, capsys):
    assert run_command(["import", tool, "--help"]) == 0
    assert f"dokimos import {tool} " in capsys.readouterr().out


def test_a_large_file_is_read_and_written_one_example_at_a_time(tmp_path):
    from dokimos.importers._exports import deepeval
    from dokimos.importers._promptfoo.conversion_notes import Notes

    (tmp_path / "a.json").write_text('[{"input": "a"},' + " " * 3_000_000 + '{"input": 3}]')
    examples = deepeval.read_examples(tmp_path / "a.json", Notes())

    assert next(examples).input == "a"


def test_text_that_only_begins_like_a_list_stays_text(run_import, tmp_path):
    (tmp_path / "a.csv").write_text("user_input,response\n[urgent] Help!,{sic}\n")

    (example,), _ = run_import("ragas", tmp_path / "a.csv")

    assert (example.input, example.actual_outputs) == ("[urgent] Help!", {"output": "{sic}"})


def test_whatever_an_export_holds_it_is_read_or_refused(tmp_path):
    """Values of other types anywhere end in an example or in a message, never in a traceback."""
    chance = random.Random(7)
    for file in sorted(DATA.glob("*.json*")):
        documents = [json.loads(line) for line in as_lines(file)]
        for _ in range(15):
            (tmp_path / file.name).write_text(
                "\n".join(json.dumps(mutate(each, chance)) for each in documents)
            )
            tool = file.name.partition("_")[0]
            command = [
                "import",
                tool,
                str(tmp_path / file.name),
                "-o",
                str(tmp_path / "out.jsonl"),
                "--force",
            ]

            assert run_command(command) in (0, 2), (file.name, (tmp_path / file.name).read_text())


def as_lines(file):
    text = file.read_text(encoding="utf-8")
    return text.splitlines() if file.suffix == ".jsonl" else [text]


def mutate(value, chance):
    """Return a value of which some parts are missing or of another type."""
    if chance.random() < 0.08:
        return chance.choice(ODD)
    if isinstance(value, dict):
        return {key: mutate(each, chance) for key, each in value.items() if chance.random() > 0.03}
    return [mutate(each, chance) for each in value] if isinstance(value, list) else value


def test_observations_and_sessions_of_langfuse_become_the_same_trace(run_import, tmp_path):
    whole = json.loads((DATA / "langfuse_trace.json").read_text())
    (tmp_path / "observations.json").write_text(json.dumps({"data": whole["observations"], "meta": {}}))
    session = {"id": "s", "traces": [whole["trace"] | {"observations": whole["observations"]}]}
    (tmp_path / "session.json").write_text(json.dumps(session))

    (expected,), _ = run_import("langfuse", "langfuse_trace.json")
    (of_table,), _ = run_import("langfuse", tmp_path / "observations.json")
    (of_session,), _ = run_import("langfuse", tmp_path / "session.json")

    assert of_session == expected
    assert (of_table.id, of_table.inputs, of_table.metrics) == (
        expected.id,
        expected.inputs,
        expected.metrics,
    )
    assert of_table.actual_outputs == expected.actual_outputs


@pytest.fixture
def import_langfuse(tmp_path, run_import):
    """A function that imports traces, and scores beside them, as the API of Langfuse lists them."""

    def run(*traces, scores=()):
        (tmp_path / "traces.json").write_text(json.dumps({"data": list(traces)}))
        (tmp_path / "scores.json").write_text(json.dumps({"data": list(scores)}))
        options = ["--scores", str(tmp_path / "scores.json")] if scores else []
        return run_import("langfuse", str(tmp_path / "traces.json"), *options)

    return run


def trace(**fields):
    return {"id": "t", "timestamp": "2026-01-01T00:00:00Z", "input": "question", "output": "good", **fields}


def test_a_list_of_traces_has_the_ids_of_its_scores(import_langfuse):
    (only,), printed = import_langfuse(trace(observations=["o1"], scores=["s1"]))
    assert "scores" not in only.metadata
    assert "scores of which only the ids are there" in printed


@pytest.mark.parametrize(
    ("output", "error"), [("good", None), (None, "The trace has the level ERROR, and no output.")]
)
def test_a_trace_that_recovered_is_scored(import_langfuse, output, error):
    (only,), _ = import_langfuse(trace(output=output, level="ERROR"))
    assert (only.actual_error, only.metadata["level"]) == (error, "ERROR")


@pytest.mark.parametrize("is_inline", [True, False])
def test_scores_of_traces_keep_their_types_and_those_of_observations_are_told(import_langfuse, is_inline):
    common = {"traceId": "t"}
    scores = [
        {**common, "name": "help", "value": 0.1, "observationId": "o1"},
        {**common, "name": "help", "value": 0.9},
        {**common, "name": "ok", "value": 1, "stringValue": "True", "dataType": "BOOLEAN"},
        {**common, "name": "tone", "value": 2, "stringValue": "warm", "dataType": "CATEGORICAL"},
        {**common, "name": "ok", "value": 0, "stringValue": "False", "dataType": "BOOLEAN"},
    ]
    (only,), printed = (
        import_langfuse(trace(scores=scores)) if is_inline else import_langfuse(trace(), scores=scores)
    )
    assert only.metadata["scores"] == {
        "help": {"value": 0.9},
        "ok": {"value": True},
        "tone": {"value": "warm"},
    }
    assert "a score of an observation" in printed
    assert "a second score 'ok' of one trace" in printed


def test_a_list_in_a_cell_is_not_one_context(run_import, tmp_path):
    cell = '"[""c1"", ""c2""]"'
    (tmp_path / "goldens.csv").write_text(f"input,actual_output,retrieval_context\nq,a,{cell}\nr,b,c1|c2\n")
    dataset, _ = run_import("deepeval", str(tmp_path / "goldens.csv"))
    assert [each.actual_outputs["contexts"] for each in dataset] == [["c1", "c2"], ["c1", "c2"]]

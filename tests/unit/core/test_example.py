import pytest

from dokimos import CallMetrics, Example
from dokimos.errors import TypeConversionError


def test_the_short_form_fills_the_conventional_keys():
    example = Example.of("question", "answer", id="q1", topic="geo")

    assert example.inputs == {"input": "question"}
    assert example.expected_outputs == {"output": "answer"}
    assert example.metadata == {"topic": "geo"}
    assert example.id == "q1"


def test_without_an_expected_value_there_is_no_expected_output():
    example = Example.of("question")

    assert example.expected_outputs == {}
    assert example.expected_output is None


def test_input_and_expected_output_are_text_forms():
    example = Example.of({"a": 1}, ["x", True])

    assert example.input == '{"a":1}'
    assert example.expected_output == '["x",true]'
    assert Example().input is None


def test_none_is_allowed_as_a_value():
    example = Example({"input": None}, {"output": None})

    assert example.input is None
    assert example.inputs == {"input": None}


def test_later_changes_to_the_maps_given_do_not_reach_it():
    inputs, outputs = {"input": "a"}, {"output": "b"}
    example = Example(inputs, actual_outputs=outputs)

    inputs["input"] = outputs["output"] = "changed"

    assert example.input == "a"
    assert example.actual_outputs == {"output": "b"}


def test_it_cannot_be_changed():
    with pytest.raises(AttributeError):
        Example().id = "x"


@pytest.mark.parametrize("field", ["inputs", "expected_outputs", "metadata", "actual_outputs"])
@pytest.mark.parametrize("value", ["text", 7, ["ab", "c"]])
def test_a_part_that_is_no_mapping_is_explained(field, value):
    with pytest.raises(TypeError, match=rf"{field} of an Example must be a mapping, not \w+; Example\.of"):
        Example(**{field: value})


def test_typed_access():
    example = Example({"input": "3", "k": 4}, {"output": [1]}, metadata={"n": "5"})

    assert example.input_as(int) == 3
    assert example.input_as(int, "k") == 4
    assert example.expected_output_as(list[int]) == [1]
    assert example.metadata_as(int, "n") == 5
    assert example.metadata_as(int, "missing") is None
    with pytest.raises(TypeConversionError, match="Cannot convert metadata 'n' to dict"):
        example.metadata_as(dict, "n")


def test_a_case_carries_everything_over():
    example = Example.of("q", "a", id="1", topic="geo")
    metrics = CallMetrics(1, 2)

    case = example.to_test_case({"output": "b", "context": ["c"]}, metrics=metrics, run_index=2)

    assert case.inputs == {"input": "q"}
    assert case.actual_outputs == {"output": "b", "context": ["c"]}
    assert case.expected_output == "a"
    assert case.metadata == {"topic": "geo"}
    assert (case.id, case.metrics, case.run_index) == ("1", metrics, 2)


@pytest.mark.parametrize("value", ["text", 3, ["a"], None])
def test_one_value_becomes_the_output(value):
    assert Example().to_test_case(value).actual_outputs == {"output": value}


@pytest.mark.parametrize("field", ["tokens_in", "tokens_out", "cost_usd", "latency_ms", "first_chunk_ms"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, "12"])
def test_metrics_that_are_no_measurement_are_refused(field, value):
    with pytest.raises(ValueError, match=f"{field} must be a finite number of at least 0"):
        CallMetrics(**{field: value})


def test_metrics_add_what_is_known():
    total = CallMetrics(1, 2, cost_usd=0.5, model="a") + CallMetrics(10, latency_ms=3, model="a")

    assert total == CallMetrics(11, 2, cost_usd=0.5, latency_ms=3, model="a")
    assert (CallMetrics(model="a") + CallMetrics(model="b")).model is None
    assert (CallMetrics(first_chunk_ms=3) + CallMetrics(first_chunk_ms=2)).first_chunk_ms == 2


def test_metrics_know_all_tokens_together():
    assert CallMetrics(1, 2).tokens == 3
    assert CallMetrics(tokens_out=2).tokens == 2
    assert CallMetrics().tokens is None


def test_an_id_is_text_and_nothing_else():
    with pytest.raises(TypeError, match="The id of an Example must be text, not 3"):
        Example.of("a", id=3)  # type: ignore[arg-type] # the mistake that is refused


@pytest.mark.parametrize(
    "name", ["output", "actual", "actual_outputs", "expected_output", "inputs", "metadata"]
)
def test_a_field_is_not_taken_for_metadata(name):
    with pytest.raises(TypeError, match=rf"Example.of\(\) takes no {name}=: "):
        Example.of("q", "a", **{name: {"output": "x"}})

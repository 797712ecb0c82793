"""smolagents, by what its objects look like."""

from types import SimpleNamespace

from dokimos.evaluators import ToolCallValidity
from dokimos.integrations import smolagents


def call(identity, name="get", **arguments):
    return {"id": identity, "function": {"name": name, "arguments": arguments}}


def step(*calls, **more):
    return {"step_number": 1, "tool_calls": list(calls), **more}


def results(*steps):
    return [made.result for made in smolagents.to_agent_trace(list(steps)).tool_calls]


def test_lines_belong_to_calls_in_the_order_of_their_ids():
    assert results(step(call("b"), call("a"), observations="of a\nof b")) == ["of b", "of a"]


def test_where_lines_cannot_be_distinguished_all_calls_have_all():
    assert results(step(call("a"), call("b"), observations="1\n2\n3")) == ["1\n2\n3"] * 2


def test_an_error_is_that_of_the_calls_that_it_names():
    error = {"message": "Error executing tool 'pay' with arguments {}: no money"}
    made = smolagents.to_agent_trace([step(call("a"), call("b", "pay"), error=error)]).tool_calls

    assert [each.result for each in made] == [None, error["message"]]
    assert [bool(each.metadata.get("error")) for each in made] == [False, True]


def test_an_error_that_names_no_call_is_that_of_all_without_a_result():
    message = {"tool_calls": [call("a"), call("b")]}
    failed = {
        "step_number": 1,
        "model_output_message": message,
        "error": {"message": "Argument town is unknown"},
    }
    output = {"id": "a", "tool_call": call("a"), "observation": "fine"}

    assert results(output, failed) == ["fine", "Argument town is unknown"]


def test_calls_that_a_failed_step_forgot_are_read_from_the_message():
    message = {"tool_calls": [call("a", n=1)]}
    failed = {"step_number": 1, "tool_calls": [], "model_output_message": message, "error": {"message": "no"}}

    assert smolagents.to_agent_trace([failed]).tool_calls[0].arguments == {"n": 1}


def test_ids_that_come_again_in_a_later_step_are_other_calls():
    assert results(step(call("a"), observations="one"), step(call("a"), observations="two")) == ["one", "two"]


def test_plans_and_thoughts_are_reasoning():
    steps = [{"plan": "First look."}, step(model_output="I look."), {"output": "Done."}]

    assert smolagents.to_agent_trace({"steps": steps, "output": "Done."}).reasoning_steps == (
        "First look.", "I look.",
    )  # fmt: skip


def test_an_answer_that_is_not_text_is_rendered_as_json():
    assert smolagents.to_agent_trace({"steps": [], "output": {"n": 1}}).final_response == '{"n":1}'


def test_optional_inputs_of_a_tool_are_not_required():
    inputs = {
        "city": {"type": "string", "description": "The city."},
        "day": {"type": "any", "description": "When.", "nullable": True},
    }
    tool = SimpleNamespace(name="get", description="Get.", inputs=inputs)
    (definition,) = smolagents.to_tool_definitions([tool, SimpleNamespace(name="final_answer")])

    assert (definition.parameters, definition.required) == (("city", "day"), ("city",))
    assert definition.schema_of("day") == {"description": "When."}


def test_a_step_that_a_stream_repeats_is_one():
    last = step(call("a", n=1), observations="one", token_usage={"input_tokens": 20, "output_tokens": 8})
    steps = [last, last, {"output": "Stopped."}]

    assert results(*steps) == ["one"]
    assert smolagents.to_call_metrics(steps).tokens_in == 20


def test_the_agents_that_an_agent_manages_and_its_interpreter_are_tools():
    def of(name):
        return SimpleNamespace(name=name, description="D.", inputs={"task": {"type": "string"}})

    agent = SimpleNamespace(
        run=print, tools={"final_answer": of("final_answer")}, managed_agents={"meteo": of("meteo")}
    )
    coding = SimpleNamespace(**vars(agent), python_executor=print)

    assert [tool.name for tool in smolagents.to_tool_definitions(agent)] == ["meteo"]
    assert [tool.name for tool in smolagents.to_tool_definitions(coding)] == ["meteo", "python_interpreter"]
    assert smolagents.to_tool_definitions(coding)[1].required == ("code",)


def test_the_interpreter_is_called_with_code_as_text_or_as_an_argument():
    calls = [
        {"id": each, "function": {"name": "python_interpreter", "arguments": given}}
        for each, given in (("a", "1 + 1"), ("b", {"code": "1 + 1"}), ("c", '{"code": "1 + 1"}'))
    ]
    made = smolagents.to_agent_trace([step(*calls)]).tool_calls

    assert [each.arguments for each in made] == [{"code": "1 + 1"}] * 3


def test_an_input_that_may_be_left_out_may_be_null():
    tool = SimpleNamespace(
        name="get", description="Get.", inputs={"day": {"type": "string", "nullable": True}}
    )
    trace = smolagents.to_agent_trace([step(call("a", day=None))])
    case = trace.to_test_case(tools=smolagents.to_tool_definitions([tool]))

    assert ToolCallValidity().evaluate(case).score == 1.0


def test_usage_is_that_of_the_whole_or_of_its_steps():
    usage = {"input_tokens": 20, "output_tokens": 8}

    assert smolagents.to_call_metrics({"token_usage": usage}).tokens_in == 20
    steps = [step(token_usage=usage), {**step(token_usage=usage), "step_number": 2}]
    assert smolagents.to_call_metrics(steps).tokens_in == 40
    assert smolagents.to_call_metrics([]) is None

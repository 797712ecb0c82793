"""Strands, by what its objects look like."""

import pytest

from dokimos import Example
from dokimos._core.conversation import ConversationTrajectory, Message
from dokimos._runtime.concurrency import run_sync
from dokimos.integrations import strands


class Agent:
    """An agent that remembers, and answers how many messages it had."""

    name, system_prompt, model = "counter", "Count.", None

    def __init__(self, messages=()):
        self.messages = list(messages)

    async def invoke_async(self, prompt, **options):
        before = len(self.messages)
        text = prompt if isinstance(prompt, str) else prompt[0]["text"]
        self.messages.append({"role": "user", "content": [{"text": text}]})
        answer = {"role": "assistant", "content": [{"text": f"{text} after {before}"}]}
        self.messages.append(answer)
        return {"metrics": {"traces": [{"message": answer}]}}


def reply(result):
    return result.outputs["output"]


def test_an_agent_starts_each_input_as_it_was_when_it_was_given():
    agent = Agent([{"role": "user", "content": [{"text": "Hi"}]}])
    task = strands.as_task(agent)
    agent.messages.append({"role": "user", "content": [{"text": "later"}]})

    assert [reply(run_sync(task(Example.of("A")))) for _ in range(3)] == ["A after 1"] * 3


def test_a_conversation_is_its_history():
    conversation = ConversationTrajectory((Message.user("Hi"), Message.assistant("Ho"), Message.user("So?")))

    assert reply(run_sync(strands.as_application(Agent)(conversation))) == "So? after 2"


def test_agents_are_distinguished_by_name_and_instructions_and_factories_by_their_name():
    assert strands.as_task(Agent()).runner.identity == "strands:counter:Count."
    assert strands.as_task(Agent).runner.identity == "strands:Agent"


def test_results_of_several_parts_and_of_json_are_kept():
    use = {"toolUse": {"toolUseId": "1", "name": "a", "input": {}}}
    results = [
        ([{"json": {"n": 1}}], '{"n":1}'),
        ([{"text": "a"}, {"text": "b"}], "a\nb"),
        ([], "[]"),
    ]
    for content, text in results:
        answer = {"toolResult": {"toolUseId": "1", "content": content, "status": "success"}}
        messages = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]}]
        assert strands.to_agent_trace(messages).tool_calls[0].result == text


def test_reasoning_is_a_step_and_what_the_user_says_is_none():
    thought = {"reasoningContent": {"reasoningText": {"text": "Hm."}}}
    messages = [
        {"role": "user", "content": [{"text": "Why?"}]},
        {"role": "assistant", "content": [thought, {"text": "So."}]},
        {"role": "user", "content": [{"text": "And?"}]},
    ]
    trace = strands.to_agent_trace({"messages": messages, "name": "thinker"})

    assert (trace.reasoning_steps, trace.final_response) == (("Hm.",), "So.")
    assert trace.metadata == {"agent": "thinker"}


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"inputTokens": 5, "outputTokens": 3, "totalTokens": 18, "cacheReadInputTokens": 10}, (15, 3, 10)),
        ({"inputTokens": 15, "outputTokens": 3}, (15, 3, None)),
        ({"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}, None),
    ],
)
def test_cached_tokens_are_among_those_read_whether_or_not_they_are_counted_apart(usage, tokens):
    metrics = strands.to_call_metrics({"metrics": {"accumulated_usage": usage}})

    found = metrics and (metrics.tokens_in, metrics.tokens_out, metrics.cached_tokens_in)
    assert found == tokens

"""Keyword arguments that a suite gives its callable."""

import pytest

from dokimos.errors import ConfigurationError

APP = """
def answer(question, *, times=1, session=None):
    return question * times

async def later(question, times=1):
    return question * times

def anything(question, **params):
    return question + str(sorted(params.items()))

class Desk:
    def __init__(self, greeting="Hello"):
        self.greeting = greeting

    def __call__(self, question):
        return f"{self.greeting} {question}"
"""

SUITE = """
agent: {{callable: "params_app:{name}", params: {params}}}
evaluations:
  metrics: [{{type: standard, metric: equality}}]
test_cases: [{{input: hi, ground_truth: "{truth}"}}]
"""


def run(folder, name, params, truth="any"):
    folder.write("params_app.py", APP)
    return folder.item(SUITE.format(name=name, params=params, truth=truth))


@pytest.mark.parametrize(
    ("name", "params", "reply"),
    [
        ("answer", "{times: 2}", "hihi"),
        ("later", "{times: 3}", "hihihi"),
        ("anything", "{a: 1}", "hi[('a', 1)]"),
        ("Desk", "{greeting: Good day}", "Good day hi"),
        ("Desk", "{}", "Hello hi"),
    ],
)
def test_a_callable_gets_its_params(folder, name, params, reply):
    assert run(folder, name, params).actual_output == reply


@pytest.mark.parametrize(
    ("name", "params", "why"),
    [
        ("answer", "{tmies: 2}", "has no parameter 'tmies'. Did you mean 'times'?"),
        ("answer", "{question: x}", "has no parameter 'question'"),
        ("answer", "{session: x}", "has no parameter 'session'"),
        ("Desk", "{greetings: x}", "Did you mean 'greeting'?"),
    ],
)
def test_a_param_that_the_callable_does_not_take_is_refused(folder, name, params, why):
    with pytest.raises(ConfigurationError) as refused:
        run(folder, name, params)

    assert why in str(refused.value)


def test_only_a_callable_has_params(folder):
    with pytest.raises(ConfigurationError, match="params are for an agent that is a callable"):
        folder.suite(
            'agent: {url: "http://127.0.0.1:9/", params: {a: 1}}\n'
            "evaluations: {metrics: [{type: standard, metric: equality}]}\ntest_cases: []\n"
        )


def test_agents_with_other_params_are_other_agents(folder):
    folder.write("params_app.py", APP)
    one, two = (
        folder.suite(SUITE.format(name="answer", params=f"{{times: {n}}}", truth="any")) for n in (1, 2)
    )

    assert one.agent == "params_app:answer(times=1)"
    assert one.agent != two.agent

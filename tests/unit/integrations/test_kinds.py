"""Telling agents from models and factories by their methods."""

import pytest

from dokimos.errors import IntegrationError
from dokimos.integrations.kinds import made_one_of, method_of

METHODS = ("generate", "run")


class Model:
    def generate(self):
        """Answer."""


class Agent:
    def run(self):
        """Run."""


def test_the_first_method_decides():
    assert [method_of(each, METHODS) for each in (Model(), Agent(), object())] == ["generate", "run", None]


def test_a_class_is_no_agent_but_makes_one():
    assert method_of(Agent, METHODS) is None
    assert isinstance(made_one_of(Agent, METHODS), Agent)


def test_an_agent_stays_itself_and_a_function_makes_a_fresh_one():
    agent = Agent()

    assert made_one_of(agent, METHODS) is agent
    assert made_one_of(lambda: Model(), METHODS) is not made_one_of(lambda: Model(), METHODS)


@pytest.mark.parametrize(
    ("given", "said"),
    [(3, "Something with 'generate' or 'run'.* is needed, not 3"), (lambda: 3, "made 3, which has no")],
)
def test_what_is_neither_is_refused(given, said):
    with pytest.raises(IntegrationError, match=said):
        made_one_of(given, METHODS)

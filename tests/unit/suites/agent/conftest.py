"""Suites whose agent has a scripted function in the place of its model."""

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

from dokimos.suites._agent.models import Endpoint

HEAD = """
model: {provider: openai, name: scripted, base_url: "http://nowhere.invalid/v1"}
instructions: {inline: Help.}
"""


class Script:
    """Gives one reply after the other, or what a function makes of the messages; keeps what it was asked."""

    def __init__(self):
        self.replies = []
        self.asked = []
        self.parameters = []
        self.answer = None
        self.has_schemas = True

    def model(self, endpoint):
        """Return the model for an endpoint."""
        profile = {"supports_json_schema_output": self.has_schemas, "supported_native_tools": frozenset()}
        return FunctionModel(self._reply, model_name=endpoint.name, profile=profile)

    def then(self, *replies):
        """Say what comes next: text, calls (name and arguments) and other parts, or an exception."""
        self.replies += replies

    def text(self, place=-1):
        """Return all that the model was told in one request."""
        parts = [part for message in self.asked[place] for part in message.parts]
        return "\n".join(str(getattr(part, "content", "")) for part in parts)

    def _reply(self, messages, info):
        self.asked.append(list(messages))
        self.parameters.append(info)
        reply = self.answer(messages) if self.answer is not None else self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        usage = RequestUsage(input_tokens=20, output_tokens=8)
        if isinstance(reply, str):
            return ModelResponse([TextPart(reply)], usage=usage, model_name="scripted")
        calls = [
            ToolCallPart(*part, f"call_{len(messages)}_{n}") if isinstance(part, tuple) else part
            for n, part in enumerate(reply)
        ]
        return ModelResponse(calls, usage=usage, model_name="scripted")


@pytest.fixture
def script(monkeypatch):
    made = Script()
    monkeypatch.setattr(Endpoint, "model", lambda endpoint: made.model(endpoint))
    return made


@pytest.fixture
def declare(folder):
    """A function that loads a suite around a declared agent."""

    def load(text, head=HEAD):
        return folder.suite(head + text)

    return load


@pytest.fixture
def run(declare):
    """A function that runs a suite around a declared agent, and returns its items."""

    def result(text, head=HEAD, **options):
        options = {"journal": False, "progress": False, **options}
        return declare(text, head).experiment().run(**options)

    return result


@pytest.fixture
def item(run):
    """A function that runs a suite of one case, and returns what came of it."""

    def only(text, head=HEAD, **options):
        (found,) = run(text, head, **options).item_results
        return found

    return only

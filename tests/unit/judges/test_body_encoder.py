"""Requests are encoded but for their prompts once, as long as nothing else in them changes."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dokimos.judges import _body_encoder as body_encoder
from dokimos.judges._body_encoder import BodyEncoder, holds_prompt_as_text
from dokimos.judges._capabilities import Mode
from dokimos.judges._model_request import ModelRequest
from dokimos.judges._openai import OpenAIChat


class Protocol:
    """Builds bodies, and counts."""

    def __init__(self) -> None:
        self.built = 0

    @holds_prompt_as_text
    def body(self, request: ModelRequest) -> dict[str, Any]:
        self.built += 1
        return {"text": f"Please: {request.prompt}", "schema": request.schema, **request.settings}


class Shouting(Protocol):
    def body(self, request: ModelRequest) -> dict[str, Any]:
        return {"text": request.prompt.upper()}


def request(prompt: str, schema: dict[str, Any] | None = None, **settings: object) -> ModelRequest:
    return ModelRequest(prompt, None, schema, Mode.SCHEMA, settings)


def encode(encoder: BodyEncoder, protocol: Protocol, asked: ModelRequest) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(encoder.encode(protocol.body, asked))
    return body


def test_the_body_is_built_once_for_many_prompts() -> None:
    encoder, protocol = BodyEncoder(), Protocol()
    for prompt in ('is "it"?', "ist es größer?\n", "\ud800", ""):
        assert encode(encoder, protocol, request(prompt))["text"] == f"Please: {prompt}"
    assert protocol.built == 1


def test_a_body_that_is_not_marked_is_built_for_each_call() -> None:
    encoder = BodyEncoder()
    assert encode(encoder, Shouting(), request("one"))["text"] == "ONE"
    assert encode(encoder, Shouting(), request("two"))["text"] == "TWO"


def test_settings_and_schemas_that_change_are_sent_as_they_are() -> None:
    encoder, protocol = BodyEncoder(), Protocol()
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    assert encode(encoder, protocol, request("a", schema, seed=1))["seed"] == 1
    assert encode(encoder, protocol, request("a", schema, seed=2))["seed"] == 2
    schema["properties"]["score"] = {"type": "number"}
    assert encode(encoder, protocol, request("a", schema, seed=2))["schema"] == schema
    assert "seed" not in encode(encoder, protocol, request("a", schema))


def test_an_equal_schema_is_sent_in_its_own_order() -> None:
    encoder, protocol = BodyEncoder(), Protocol()
    first, second = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    for schema in (first, second, first):
        assert list(encode(encoder, protocol, request("x", schema))["schema"]) == list(schema)


def test_a_schema_that_stays_equal_is_sent_as_it_has_become() -> None:
    encoder, protocol = BodyEncoder(), Protocol()
    schema: dict[str, Any] = {"reason": 1, "score": 2}
    for name, value in (("reason", 1), ("score", 2.0), ("reason", True)):
        schema.pop(name)
        schema[name] = value
        assert json.dumps(encode(encoder, protocol, request("x", schema))["schema"]) == json.dumps(schema)


def test_a_schema_may_hold_an_enum() -> None:
    class Kind(StrEnum):
        OBJECT = "object"

    encoder, protocol = BodyEncoder(), Protocol()
    schema: dict[str, Any] = {"type": "object"}
    for value in ("object", Kind.OBJECT, "object"):
        schema["type"] = value
        assert encode(encoder, protocol, request("x", schema))["schema"] == {"type": "object"}


def test_schemas_without_end_do_not_fill_the_memory(monkeypatch: Any) -> None:
    monkeypatch.setattr(body_encoder, "MOST_TEMPLATES", 3)
    encoder, protocol = BodyEncoder(), Protocol()
    schemas = [{"n": number} for number in range(10)]
    assert [encode(encoder, protocol, request("x", each))["schema"] for each in schemas] == schemas
    assert len(encoder._templates) <= 3


@dataclass(frozen=True, kw_only=True, repr=False)
class Thoughtful(OpenAIChat):
    def body(self, request: ModelRequest) -> dict[str, Any]:
        return {**super().body(request), "length": len(request.prompt)}


def test_a_subclass_may_build_what_depends_on_the_prompt() -> None:
    judge = Thoughtful("m", base_url="http://127.0.0.1:9")
    lengths = [json.loads(judge._encoder.encode(judge.body, request("x" * n)))["length"] for n in (1, 2, 3)]
    assert lengths == [1, 2, 3]

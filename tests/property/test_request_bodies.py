"""A request of which all but the prompt was encoded before is byte for byte what encoding all of it gives."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos.judges import HttpJudge
from dokimos.judges._anthropic import AnthropicMessages
from dokimos.judges._body_encoder import BodyEncoder
from dokimos.judges._capabilities import Mode, capabilities_of
from dokimos.judges._gemini import Gemini
from dokimos.judges._model_request import ModelRequest
from dokimos.judges._ollama import OllamaNative
from dokimos.judges._openai import AzureOpenAI, OpenAIChat, OpenAIResponses

URL = "http://127.0.0.1:9"
SCHEMAS: list[dict[str, Any] | None] = [
    None,
    {"type": "object", "properties": {"score": {"type": "number", "minimum": 0}}, "required": ["score"]},
    {"type": "object", "properties": {"reason": {"type": "string", "description": 'a "reason" ü'}}},
]
JUDGES: list[HttpJudge] = [
    OpenAIChat("m", base_url=URL, seed=3, max_tokens=9, top_logprobs=2, api_key="k"),
    AzureOpenAI("m", base_url=URL, api_key="k"),
    OpenAIResponses("m", base_url=URL, top_logprobs=2, api_key="k"),
    AnthropicMessages("m", base_url=URL, top_p=0.5, api_key="k"),
    Gemini("m", base_url=URL, seed=1, api_key="k"),
    OllamaNative("m", base_url=URL, num_ctx=4096, top_logprobs=1),
]
prompts = st.text() | st.text(st.characters(categories=["Cs", "Cc", "Po", "Co"])) | st.just("\\ue000 \ue000")


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: type(judge).__name__)
@given(
    requests=st.lists(
        st.tuples(
            prompts,
            st.none() | st.text(max_size=5),
            st.sampled_from(SCHEMAS),
            st.sampled_from(Mode),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_it_is_what_the_encoder_of_json_gives(judge: HttpJudge, requests: list[Any]) -> None:
    encoder = BodyEncoder()
    for prompt, system, schema, mode, has_settings in requests:
        settings: Mapping[str, Any] = judge.settings(capabilities_of(("any", "any"))) if has_settings else {}
        request = ModelRequest(prompt, system, schema, mode, settings)
        assert encoder.encode(judge.body, request) == json.dumps(judge.body(request)).encode()

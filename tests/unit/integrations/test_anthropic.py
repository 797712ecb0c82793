"""Messages of the Anthropic SDK, without it."""

import pytest

from dokimos.integrations import anthropic


def test_what_has_only_content_is_the_assistants():
    trace = anthropic.to_agent_trace({"content": [{"type": "text", "text": "4 degrees."}]})

    assert trace.final_response == "4 degrees."


@pytest.mark.parametrize("thing", [None, [], 5])
def test_what_is_not_a_message_is_refused(thing):
    with pytest.raises(ValueError, match=r"messages\[1\] must be a map with role and content"):
        anthropic.to_agent_trace([{"role": "user", "content": "Weather?"}, thing])

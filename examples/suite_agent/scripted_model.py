"""A stand-in for a language model: an OpenAI-compatible server that answers by rules.

python examples/suite_agent/scripted_model.py [PORT]    # 8972 unless given
"""

from __future__ import annotations

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PORT = 8972
DAY = re.compile(r"\b(\w+day)\b", re.IGNORECASE)


def answered(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the next message of the assistant: a call of a tool, or what the last result says."""
    asked = next(message for message in reversed(messages) if message["role"] == "user")
    text = words_of(asked["content"])
    result = messages[-1]["content"] if messages[-1]["role"] == "tool" else None
    if day := DAY.search(text):
        if result is None:
            return call("opening_hours", day=day[1])
        return said(f"On {day[1]} we are {result if result == 'closed' else 'open ' + result}.")
    if "colour" in text:
        return said("It is red.")
    if text.startswith("Shorten"):
        return said("A captain hunts a white whale.")
    if "short" in text:
        if result is None:
            return call("shorten", text="A captain hunts the white whale that took his leg, and loses all.")
        return said(result)
    if result is None:
        return call("find", subject=text.rstrip("?").split()[-1])
    return said(f"We have {json.loads(result)[0].partition(':')[0]}.")


def words_of(content: Any) -> str:
    """Return the text of a message, which may have other parts beside it."""
    if isinstance(content, str):
        return content
    return " ".join(part["text"] for part in content if part["type"] == "text")


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"id": f"call_{name}", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


class Handler(BaseHTTPRequestHandler):
    """Speaks Chat Completions."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = answered(body["messages"])
        reply = {
            "id": "scripted",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 60, "completion_tokens": 12, "total_tokens": 72},
        }
        content = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(
        ("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else PORT), Handler
    ).serve_forever()

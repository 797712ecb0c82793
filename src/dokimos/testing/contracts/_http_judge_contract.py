"""What every judge behind HTTP must do, with an endpoint on this machine to test it against."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from dokimos._runtime.concurrency import run_sync
from dokimos.judges._protocol import JudgeReply
from dokimos.judges._provider import HttpJudge
from dokimos.testing.contracts._contract_failure import check, missing_attribute
from dokimos.testing.contracts._judge_contract import PROMPT, JudgeContract

REPLY = '{"verdict": "yes", "reason": "7 has no divisors but 1 and 7."}'
TOKENS_IN, TOKENS_OUT = 31, 17


class _Endpoint(ThreadingHTTPServer):
    """Answers every POST with the body that the test has set, and records what it received."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.body: Mapping[str, Any] = {}
        self.received: list[dict[str, Any]] = []
        self.headers: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: _Endpoint

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.received.append(json.loads(content))
        self.server.headers.append(str(self.headers))
        # What a careless proxy does with a key: the judge must not pass it on.
        echo = {"error": {"message": f"not allowed: {self.headers}"}}
        reply = json.dumps(self.server.body if self.server.status == 200 else echo).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing to standard error."""


class HttpJudgeContract(JudgeContract):
    """Tests of an `HttpJudge`: the subclass says what a reply of its provider looks like.

    The tests start an endpoint on this machine; no test leaves it.
    """

    judge_class: ClassVar[type[HttpJudge] | None] = None
    """The class of the provider."""
    base_path: ClassVar[str] = ""
    """What the root of the API has after the host, such as "/v1"."""

    @pytest.fixture(autouse=True)
    def _endpoint_of_the_test(self) -> Iterator[None]:
        with _serve() as endpoint:
            self.endpoint = endpoint
            endpoint.body = self.reply_body(REPLY, TOKENS_IN, TOKENS_OUT)
            yield

    def reply_body(self, text: str, tokens_in: int, tokens_out: int) -> Mapping[str, Any]:
        """Return the JSON with which the provider answers; this one is that of Chat Completions."""
        message = {"role": "assistant", "content": text}
        return {
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": tokens_in, "completion_tokens": tokens_out},
        }

    def find_schema(self, body: Mapping[str, Any]) -> object:
        """Return the JSON Schema in a request, None where there is none; this is that of Chat Completions."""
        return body.get("response_format", {}).get("json_schema", {}).get("schema")

    def make_judge(self) -> HttpJudge:
        return self._make("contract-model")

    def make_other_judge(self) -> HttpJudge:
        return self._make("another-model")

    def make_failing_judge(self) -> HttpJudge:
        self.endpoint.status = 401
        return self.make_judge()

    def find_last_schema(self) -> object:
        return self.find_schema(self.endpoint.received[-1])

    def test_the_reply_and_its_tokens_are_read(self) -> None:
        reply: JudgeReply = run_sync(self.make_judge().complete(PROMPT))
        name = self.make_judge().__class__.__name__
        check(reply.text == REPLY, f"{name}.read() returned {reply.text!r}; the reply was {REPLY!r}.")
        counts = reply.metrics and (reply.metrics.tokens_in, reply.metrics.tokens_out)
        check(
            counts == (TOKENS_IN, TOKENS_OUT),
            f"{name}.tokens() returned {counts!r}; the reply said {(TOKENS_IN, TOKENS_OUT)!r}.",
        )

    def test_the_prompt_the_model_and_the_key_are_sent(self) -> None:
        run_sync(self.make_judge().complete("Is this prompt sent? contract-prompt"))
        name = self.make_judge().__class__.__name__
        sent = json.dumps(self.endpoint.received[-1])
        check("contract-prompt" in sent, f"{name}.body() must hold the prompt of the request.")
        check(self.secret in self.endpoint.headers[-1], f"{name}.authorization() must send the key.")

    def test_a_reply_that_is_not_one_is_a_judge_error(self) -> None:
        self.endpoint.body = {"unexpected": True}
        self._expect_judge_error()

    def test_a_server_error_is_a_judge_error(self) -> None:
        self.endpoint.status = 500
        self._expect_judge_error()

    def _expect_judge_error(self) -> None:
        from dokimos.errors import JudgeError

        try:
            reply = run_sync(self.make_judge().complete(PROMPT))
        except JudgeError:
            return
        name = self.make_judge().__class__.__name__
        check(False, f"{name} returned {reply!r:.80} for a broken reply; read() must raise JudgeReplyError.")

    def _make(self, model: str) -> HttpJudge:
        if self.judge_class is None:
            missing_attribute(self, "judge_class", "judge_class = MyProvider")
        return self.judge_class(
            # One attempt: the tests of errors would otherwise wait for the backoff of retries.
            model,
            base_url=self.endpoint.url + self.base_path,
            api_key=self.secret,
            attempts=1,
        )


@contextmanager
def _serve() -> Iterator[_Endpoint]:
    endpoint = _Endpoint()
    # serve_forever looks for shutdown() every half second by default, which each test would wait for.
    thread = threading.Thread(target=endpoint.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.shutdown()
        endpoint.server_close()
        thread.join()

"""Replies of the model, kept by what was asked, behind a server that all arms of the comparison ask alike."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import threading
import urllib.error
import urllib.request
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

SEED: Final = 7
MOST_TOKENS: Final = 400
"""So long may a reply be, whoever asks: without a limit a small model may never stop."""
MODEL: Final = "Qwen2.5-Coder 1.5B Instruct, 4-bit"
UPSTREAM_SECONDS: Final = 900

_MARKER: Final = re.compile(r"(?<=material )[0-9a-f]{8}(?=[> ])")


class ReplyMissing(Exception):
    """What is asked is not among the recorded replies, and there is no model to ask."""


@dataclass(slots=True)
class Usage:
    """What one case has cost one arm so far."""

    calls: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0


class ReplyStore:
    """One file of replies for each arm; what is in it is never asked again."""

    def __init__(
        self, folder: Path, *, model_url: str | None = None, embeddings_url: str | None = None
    ) -> None:
        self.folder = folder
        self.missing: list[str] = []
        """The cases for which something was asked that is not recorded."""
        self._model_url = model_url
        self._embeddings_url = embeddings_url
        self._replies = {
            path.stem: {row["key"]: row for row in lines_of(path)} for path in folder.glob("*.jsonl")
        }
        self._upstream = threading.Lock()  # the model has one slot, and equal questions wait for each other
        self._usage = Usage()
        self._case = ""

    def begin_case(self, case: str) -> None:
        """Count the calls from now on for this case."""
        self._case, self._usage = case, Usage()

    def usage(self) -> Usage:
        """Return what the present case has cost, whether it was asked now or recorded earlier."""
        return self._usage

    def complete(self, arm: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the chat completion for a request of an arm.

        Raises:
            ReplyMissing: when it is not recorded and there is no model.
        """
        wanted = {**body, "temperature": 0, "seed": SEED, "model": "judge"}
        wanted["max_tokens"] = min(body.get("max_tokens") or MOST_TOKENS, MOST_TOKENS)
        with self._upstream:
            found = self._find(arm, wanted) or self._ask(arm, wanted)
            self._usage.calls += 1
            self._usage.prompt_tokens += found["prompt_tokens"]
            self._usage.reply_tokens += found["reply_tokens"]
        return _as_completion(found)

    def embed(self, arm: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the embeddings for a request of an arm, and raise as `complete` does."""
        texts = [body["input"]] if isinstance(body["input"], str) else list(body["input"])
        with self._upstream:
            vectors = [self._vector(arm, text) for text in texts]
        encoded = body.get("encoding_format") == "base64"
        data = [
            {"object": "embedding", "index": index, "embedding": vector if encoded else _decoded(vector)}
            for index, vector in enumerate(vectors)
        ]
        return {
            "object": "list",
            "model": "judge",
            "data": data,
            "usage": {"prompt_tokens": 0, "total_tokens": 0},
        }

    def _find(self, arm: str, wanted: dict[str, Any]) -> dict[str, Any] | None:
        return self._replies.get(arm, {}).get(key_of(wanted))

    def _ask(self, arm: str, wanted: dict[str, Any]) -> dict[str, Any]:
        answer = self._post(self._model_url, "chat/completions", wanted)
        choice, usage = answer["choices"][0], answer["usage"]
        found = {
            "key": key_of(wanted),
            "case": self._case,
            "reply": choice["message"].get("content") or "",
            "finish": choice["finish_reason"],
            "prompt_tokens": usage["prompt_tokens"],
            "reply_tokens": usage["completion_tokens"],
        }
        self._keep(arm, found)
        return found

    def _vector(self, arm: str, text: str) -> str:
        wanted = {"embed": text}
        found = self._find(arm, wanted)
        if found is None:
            answer = self._post(self._embeddings_url, "embeddings", {"input": [text], "model": "embedder"})
            vector = array("f", answer["data"][0]["embedding"])
            found = {"key": key_of(wanted), "case": self._case, "vector": base64.b64encode(vector).decode()}
            self._keep(arm, found)
        return str(found["vector"])

    def _keep(self, arm: str, found: dict[str, Any]) -> None:
        self._replies.setdefault(arm, {})[found["key"]] = found
        append_line(self.folder / f"{arm}.jsonl", found)

    def _post(self, url: str | None, path: str, body: dict[str, Any]) -> Any:
        if url is None:
            self.missing.append(self._case)
            raise ReplyMissing(f"{self._case} asks what is not recorded; record it anew")
        data, headers = json.dumps(body).encode(), {"content-type": "application/json"}
        request = urllib.request.Request(f"{url}/{path}", data, headers)
        with urllib.request.urlopen(request, timeout=UPSTREAM_SECONDS) as answer:
            return json.load(answer)


def key_of(wanted: dict[str, Any]) -> str:
    """Return the key of a request; the markers that fences draw at random do not count."""
    text = json.dumps(wanted, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(_MARKER.sub("MARKER", text).encode()).hexdigest()[:24]


def serve(store: ReplyStore) -> ThreadingHTTPServer:
    """Start a server on a free port; `/<arm>/v1` is the base URL of an arm."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            arm, _, path = self.path.strip("/").partition("/v1/")
            try:
                answer = {"chat/completions": store.complete, "embeddings": store.embed}[path](arm, body)
                self._send(200, answer)
            except ReplyMissing as problem:
                self._send(404, {"error": {"message": str(problem)}})
            except urllib.error.HTTPError as refusal:
                self._send(refusal.code, json.loads(refusal.read() or b"{}"))

        def _send(self, status: int, answer: dict[str, Any]) -> None:
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def append_line(path: Path, row: dict[str, Any]) -> None:
    """Add a line of JSON; half a line that a killed recording has left is ended first."""
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file that are whole."""
    for line in path.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def _as_completion(found: dict[str, Any]) -> dict[str, Any]:
    prompt, reply = found["prompt_tokens"], found["reply_tokens"]
    message = {"role": "assistant", "content": found["reply"]}
    return {
        "id": found["key"],
        "object": "chat.completion",
        "created": 0,
        "model": "judge",
        "choices": [{"index": 0, "message": message, "finish_reason": found["finish"], "logprobs": None}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply},
    }


def _decoded(vector: str) -> list[float]:
    return list(array("f", base64.b64decode(vector)))

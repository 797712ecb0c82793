"""A stand-in for a language model: an OpenAI-compatible server that reads tables by rules, and errs at times.

python examples/finance/scripted_model.py [PORT]    # 8971 unless given
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PORT = 8971
YEAR = re.compile(r"\b(?:19|20)\d\d\b")
WORD = re.compile(r"[a-z]+")
DIFFERENCE = re.compile(r"\b(change|grow|rise|decrease|lower|fewer|more than|fall short|left to pay)\b")
QUOTIENT = re.compile(r"\b(share|percent|percentage|ratio|per)\b")
LESS = re.compile(r"\b(decrease|lower|fewer|fall short)\b")


@dataclass
class Table:
    """The figures of a filing: rows by label, each with a figure for every year."""

    rows: dict[str, dict[str, float]] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Table:
        lines = [[cell.strip() for cell in line.strip("| ").split("|")] for line in _table_lines(text)]
        years = lines[0][1:] if lines else []
        figures = ([float(cell.replace(",", "")) for cell in line[1:]] for line in lines[2:])
        return cls(
            {
                line[0]: dict(zip(years, row, strict=True))
                for line, row in zip(lines[2:], figures, strict=True)
            }
        )

    def rows_in(self, question: str) -> list[str]:
        """Return the labels that a question names, in its order."""
        asked = WORD.findall(question.lower())
        words = {label: WORD.findall(label.lower().partition("(")[0]) for label in self.rows}
        named = [label for label in self.rows if set(words[label]) <= set(asked)]
        return sorted(named, key=lambda label: asked.index(words[label][0]))


def _table_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip().startswith("|")]


@dataclass
class Reader:
    """Answers one question from the table, with what was found before in the conversation."""

    table: Table
    found: list[float]
    row: str | None
    year: str | None

    def next(self, question: str) -> tuple[str, float, float] | float | None:
        """Return the calculation to ask for, or the figure itself, or None where there is no idea."""
        text, years = question.lower(), YEAR.findall(question)
        rows = self.table.rows_in(question) or ([self.row] if self.row else [])
        if QUOTIENT.search(text):
            order = -1 if "share of" in text else 1
            return self._calculation("divide", rows[::order], years)
        if DIFFERENCE.search(text):
            return self._calculation("subtract", rows, years, less=bool(LESS.search(text)))
        return self._figure(rows, years)

    def _calculation(
        self, tool: str, rows: list[str], years: list[str], *, less: bool = False
    ) -> tuple[str, float, float] | None:
        named = sorted(set(years), reverse=not less)
        if len(rows) >= 2 and (years or self.year):
            year = (years or [self.year])[0]
            return tool, self.table.rows[rows[0]][year], self.table.rows[rows[1]][year]
        if rows and len(named) == 2:
            return tool, self.table.rows[rows[0]][named[0]], self.table.rows[rows[0]][named[1]]
        if self.found and rows and named:
            return tool, self.found[-1], self.table.rows[rows[0]][named[0]]
        if len(self.found) >= 2:
            return tool, self.found[-2], self.found[-1]
        return None

    def _figure(self, rows: list[str], years: list[str]) -> float | None:
        year = (years or [self.year])[0]
        return self.table.rows[rows[0]].get(year) if rows and year else None


def reply(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the message that follows: the call of a tool, or an answer."""
    texts = [_text(message) for message in messages]
    asked = [at for at, message in enumerate(messages) if message["role"] == "user"]
    table = Table.read("\n".join(texts[at] for at in asked))
    since = messages[asked[-1] + 1 :]
    results = [_text(message) for message in since if message["role"] == "tool"]
    question = _question(texts[asked[-1]])
    if results:
        return _answer(_written(question, results[-1]))
    before = [_question(texts[at]) for at in asked[:-1]]
    reader = Reader(table, _found(messages), _last(map(table.rows_in, before)), _last(map(_years, before)))
    step = reader.next(question)
    if isinstance(step, tuple):
        name, a, b = step
        return _called(name, {"a": a, "b": b})
    return _answer("unknown" if step is None else f"{step:.10g}")


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def _question(text: str) -> str:
    """Return what is asked, without the filing that came with it."""
    return next((line for line in text.splitlines() if line.strip().endswith("?")), text)


def _years(question: str) -> list[str]:
    return YEAR.findall(question)


def _last(found: Any) -> str | None:
    return next((values[0] for values in reversed(list(found)) if values), None)


def _found(messages: list[dict[str, Any]]) -> list[float]:
    """Return the numbers that were answered so far."""
    said = (_text(message) for message in messages if message["role"] == "assistant")
    answers = (json.loads(text)["answer"] for text in said if text)
    return [float(a.rstrip("%")) / (100 if a.endswith("%") else 1) for a in answers if a != "unknown"]


def _written(question: str, result: str) -> str:
    try:
        value = float(result)
    except ValueError:
        return "unknown"
    is_share = re.search(r"\b(share|percent|percentage)\b", question.lower())
    return f"{value * 100:.2f}%" if is_share else f"{value:.10g}"


def _answer(answer: str) -> dict[str, Any]:
    return {"role": "assistant", "content": json.dumps({"answer": answer})}


def _called(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"id": f"call_{name}", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


class Handler(BaseHTTPRequestHandler):
    """Answers Chat Completions."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = reply(asked["messages"])
        usage = {
            "prompt_tokens": len(json.dumps(asked["messages"])) // 4,
            "completion_tokens": len(json.dumps(message)) // 4,
        }
        usage["total_tokens"] = sum(usage.values())
        choice: dict[str, Any] = {
            "index": 0,
            "finish_reason": "tool_calls" if "tool_calls" in message else "stop",
        }
        choice["message"] = message
        body = {"id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": asked["model"]}
        content = json.dumps({**body, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else PORT
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()

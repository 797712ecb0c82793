"""The part of GitHub's API that comments need, with replies as they were recorded, and its refusals."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REFUSED = {
    "message": "Resource not accessible by integration",
    "documentation_url": "https://docs.github.com/rest/issues/comments#create-an-issue-comment",
    "status": "403",
}


def comment(number: int, body: str, login: str = "github-actions[bot]") -> dict[str, Any]:
    """A comment as the API returns it, without the members that nobody reads."""
    return {
        "url": f"https://api.github.com/repos/acme/bot/issues/comments/{number}",
        "html_url": f"https://github.com/acme/bot/pull/7#issuecomment-{number}",
        "issue_url": "https://api.github.com/repos/acme/bot/issues/7",
        "id": number,
        "user": {"login": login, "id": 41898282, "type": "Bot"},
        "created_at": "2026-11-20T09:12:44Z",
        "updated_at": "2026-11-20T09:12:44Z",
        "body": body,
        "author_association": "NONE",
    }


@dataclass
class GitHubApi:
    """A server on this machine that remembers comments and requests."""

    comments: list[dict[str, Any]] = field(default_factory=list)
    refuses: bool = False
    page_size: int = 2
    requests: list[tuple[str, str]] = field(default_factory=list)
    authorizations: set[str] = field(default_factory=set)

    def __enter__(self) -> GitHubApi:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                api.answer(self, "GET")

            def do_POST(self) -> None:
                api.answer(self, "POST")

            def do_PATCH(self) -> None:
                api.answer(self, "PATCH")

            def log_message(self, format: str, *arguments: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, handler: BaseHTTPRequestHandler, method: str) -> None:
        path, _, query = handler.path.partition("?")
        self.requests.append((method, handler.path))
        self.authorizations.add(handler.headers["Authorization"])
        length = int(handler.headers.get("Content-Length") or 0)
        body = json.loads(handler.rfile.read(length) or b"{}")
        if self.refuses and method != "GET":
            return self._send(handler, 403, REFUSED)
        if path == "/repos/acme/bot/issues/7/comments":
            if method == "POST":
                made = comment(1000 + len(self.comments), body["body"])
                self.comments.append(made)
                return self._send(handler, 201, made)
            return self._page(handler, query)
        for one in self.comments:
            if method == "PATCH" and path == f"/repos/acme/bot/issues/comments/{one['id']}":
                one["body"] = body["body"]
                return self._send(handler, 200, one)
        return self._send(handler, 404, {"message": "Not Found", "status": "404"})

    def _page(self, handler: BaseHTTPRequestHandler, query: str) -> None:
        page = int(dict(part.split("=") for part in query.split("&")).get("page", 1))
        start = (page - 1) * self.page_size
        links = {}
        if start + self.page_size < len(self.comments):
            following = f"{self.url}/repos/acme/bot/issues/7/comments?per_page=100&page={page + 1}"
            links["Link"] = f'<{following}>; rel="next", <{self.url}/last>; rel="last"'
        self._send(handler, 200, self.comments[start : start + self.page_size], links)

    def _send(
        self,
        handler: BaseHTTPRequestHandler,
        status: int,
        content: Any,
        headers: dict[str, str] | None = None,
    ) -> None:
        data = json.dumps(content).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json; charset=utf-8")
        handler.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

"""The web interface: the files that `make ui` builds, answered beside the API.

Its pages are one file, which a browser gets for every address that no route of the API has. They hold no
data, so nobody needs a key for them; what they show they ask the API for.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response
from starlette.requests import Request

from dokimos._core.markup import document, join, link_to_path, tag
from dokimos.server._api.http.access import Access, access
from dokimos.server._services.errors import NotFoundError

ROUTER = APIRouter()
STATIC: Final = Path(__file__).parent.parent / "static"
_OF_THE_API: Final = ("/api/", "/v1/", "/v3/", "/actuator/", "/assets/", "/metrics", "/openapi.json")
# Not those of the system: the registry of Windows may call a script plain text, which browsers do not run.
_TYPES: Final = MappingProxyType(
    {
        ".js": "text/javascript; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".svg": "image/svg+xml",
        ".woff2": "font/woff2",
        ".png": "image/png",
    }
)
_YEAR: Final = "public, max-age=31536000, immutable"
_LEAST_COMPRESSED: Final = 1_000
_REFUSES_GZIP: Final = re.compile(r"\bgzip\s*;\s*q=0(\.0*)?\s*(,|$)")
_BUILD_CHARACTERS: Final = 16


@dataclass(frozen=True, slots=True)
class WebFile:
    """A built file in memory, as it is and compressed."""

    body: bytes
    media_type: str
    etag: str
    compressed: bytes | None = field(repr=False)


def wants_page(request: Request) -> bool:
    """Whether a browser asks for an address of the web interface, rather than for a route of the API."""
    path = request.url.path
    return (
        request.method == "GET"
        and "text/html" in request.headers.get("accept", "")
        and not path.startswith((*_OF_THE_API, "//"))  # which scripts could take for another host
    )


def answer_page(request: Request) -> Response:
    """Return the one file of all pages; a plain page that says so where the interface was never built."""
    root_path: str = request.app.state.settings.root_path
    page = _read_page(STATIC, root_path)
    if page is None:
        return Response(_page_without_interface(root_path), media_type="text/html; charset=utf-8")
    return _respond(request, page, "no-cache")


@ROUTER.get("/assets/{name}", include_in_schema=False)
@access(Access.PUBLIC)
async def get_asset(request: Request, name: str) -> Response:
    """Return a built file, whose name changes with its content."""
    asset = read_files(STATIC / "assets").get(name)
    if asset is None:
        raise NotFoundError(f"Asset not found: {name}")
    return _respond(request, asset, _YEAR)


def read_build() -> str | None:
    """Return which build the files are of, None without files.

    A page that is told another one than it began with is of a server that was upgraded meanwhile.
    """
    try:
        sources: str = json.loads((STATIC / "BUILD").read_bytes())["sources"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return sources[:_BUILD_CHARACTERS]


@cache
def read_files(folder: Path) -> Mapping[str, WebFile]:
    """Return the files of a folder by their names: no other name can be asked for."""
    if not folder.is_dir():
        return {}
    return {path.name: _read_file(path) for path in sorted(folder.iterdir()) if path.is_file()}


@cache
def _read_page(folder: Path, root_path: str) -> WebFile | None:
    """Return the one file of all pages, which names the root path to its scripts where there is one.

    These are the same bytes for each root path: what they load they ask for beside themselves.
    """
    page = read_files(folder).get("index.html")
    if page is None or not root_path:
        return page
    title = tag("title", "dokimos")
    head = join(tag("meta", name="dokimos-root", content=root_path), title)
    text = page.body.decode().replace('="/assets/', f'="{root_path}/assets/')
    return _make_file(text.replace(title.markup, head.markup).encode(), page.media_type)


def _read_file(path: Path) -> WebFile:
    return _make_file(path.read_bytes(), _TYPES.get(path.suffix, "text/html; charset=utf-8"))


def _make_file(body: bytes, media_type: str) -> WebFile:
    compressed = gzip.compress(body, 9, mtime=0) if len(body) >= _LEAST_COMPRESSED else None
    return WebFile(body, media_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"', compressed)


def _respond(request: Request, file: WebFile, caching: str) -> Response:
    headers = {"Cache-Control": caching, "ETag": file.etag, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    encodings = request.headers.get("accept-encoding", "")
    if file.compressed is not None and "gzip" in encodings and not _REFUSES_GZIP.search(encodings):
        headers["Content-Encoding"] = "gzip"
        return Response(file.compressed, headers=headers, media_type=file.media_type)
    return Response(file.body, headers=headers, media_type=file.media_type)


def _page_without_interface(root_path: str) -> str:
    head = join(tag("meta", charset="utf-8"), tag("title", "dokimos"))
    body = tag(
        "main",
        tag("h1", "dokimos"),
        tag("p", "This source tree has no built web interface; make ui builds it. The API works without it."),
        tag("p", link_to_path(f"{root_path}/openapi.json", "Description of the API")),
    )
    return document(head, body)

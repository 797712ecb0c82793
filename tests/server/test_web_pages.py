"""The web interface as files: what a browser gets, and that they were built from the sources beside them."""

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from dokimos.server import ServerSettings
from dokimos.server._api import web_pages
from dokimos.server._app import create_app

FRONTEND = Path(__file__).parents[2] / "frontend"
STATIC = web_pages.STATIC
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
PAGES = (
    "/", "/projects/a%2Fb%25", "/projects/x/alerts", "/experiments/1", "/runs/1",
    "/experiments/1/runs/2/diff", "/datasets", "/traces/0af7", "/api-keys",
)  # fmt: skip


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    """A client of a server that asks for a key wherever data is read."""
    settings = ServerSettings(
        host="127.0.0.1",
        data_dir=tmp_path_factory.mktemp("server"),
        api_key="secret",
        require_auth_for_reads=True,
    )
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        yield client


@pytest.mark.parametrize("path", PAGES)
def test_every_address_of_the_interface_is_its_one_page(api, path):
    answer = api.get(path, headers=BROWSER)

    assert answer.status_code == 200
    assert answer.content == (STATIC / "index.html").read_bytes()
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert "default-src 'self'" in answer.headers["content-security-policy"]


def test_the_page_needs_no_key_and_what_it_shows_does(api):
    assert api.get("/runs/1", headers=BROWSER).status_code == 200
    assert api.get("/api/v1/projects", headers=BROWSER).status_code == 401


def test_the_page_is_not_sent_again_while_it_is_the_same(api):
    tag = api.get("/", headers=BROWSER).headers["etag"]

    answer = api.get("/", headers={**BROWSER, "If-None-Match": tag})

    assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)


@pytest.mark.parametrize(
    "path", ["/api/v1/nothing", "/v1/nothing", "/actuator/nothing", "/assets/nothing.js"]
)
def test_what_is_missing_from_the_api_is_no_page(api, path):
    answer = api.get(path, headers=BROWSER)

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/json"


def test_a_client_of_the_api_is_told_that_there_is_no_such_route(api):
    assert "no such route" in api.get("/runs/1", headers={"Accept": "application/json"}).json()["message"]
    assert api.post("/runs/1", headers=BROWSER).status_code == 404


def test_assets_have_their_types_and_are_kept_for_a_year(api):
    names = re.findall(r'(?:src|href)="/assets/([^"]+)"', (STATIC / "index.html").read_text())
    types = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    assert {Path(name).suffix for name in names} == set(types)
    for name in names:
        answer = api.get(f"/assets/{name}", headers={"Accept-Encoding": "identity"})

        assert answer.content == (STATIC / "assets" / name).read_bytes()
        assert answer.headers["content-type"].partition(";")[0] == types[Path(name).suffix]
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize("encodings", ["br", "gzip;q=0", "br, gzip; q=0.0, deflate"])
def test_scripts_come_as_they_are_where_the_browser_refuses_gzip(api, encodings):
    [script] = [path for path in (STATIC / "assets").glob("index-*.js")]

    answer = api.get(f"/assets/{script.name}", headers={"Accept-Encoding": encodings})

    assert "content-encoding" not in answer.headers
    assert answer.content == script.read_bytes()


def test_scripts_come_compressed_where_the_browser_takes_it(api):
    [script] = [path for path in (STATIC / "assets").glob("index-*.js")]

    with api.stream("GET", f"/assets/{script.name}", headers={"Accept-Encoding": "br, gzip"}) as answer:
        body = b"".join(answer.iter_raw())

    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == script.read_bytes()


@pytest.mark.parametrize(
    "name", ["..%2Findex.html", "%2e%2e%2fBUILD", "..%5cBUILD", ".", "BUILD", "index.js%00"]
)
def test_nothing_beside_the_assets_can_be_asked_for(api, name):
    assert api.get(f"/assets/{name}").status_code in (400, 404)


def test_each_answer_names_the_build_so_that_an_old_page_notices_an_upgrade(api):
    build = json.loads((STATIC / "BUILD").read_text())["sources"]

    for path in ("/", "/api/v1/projects", "/nothing"):
        assert api.get(path, headers=BROWSER).headers["x-dokimos-build"] == build[:16]


def test_a_tree_without_the_built_files_names_no_build(monkeypatch, tmp_path):
    monkeypatch.setattr(web_pages, "STATIC", tmp_path)
    assert web_pages.read_build() is None

    (tmp_path / "BUILD").write_text('["damaged"]')
    assert web_pages.read_build() is None


def test_a_tree_without_the_built_files_says_so(api, monkeypatch, tmp_path):
    monkeypatch.setattr(web_pages, "STATIC", tmp_path / "nowhere")

    answer = api.get("/", headers=BROWSER)

    assert answer.status_code == 200
    assert "make ui" in answer.text


def test_the_page_has_nothing_inline_that_the_policy_forbids():
    page = (STATIC / "index.html").read_text()

    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", page) == []
    assert re.findall(r"https?://", page) == []


def test_the_built_files_are_those_of_these_sources():
    stamp = json.loads((STATIC / "BUILD").read_text())

    assert stamp["sources"] == hash_sources(), (
        "frontend/ has changed since the files were built: run `make ui`"
    )


def test_the_built_files_are_small():
    files = [path for path in STATIC.rglob("*") if path.is_file()]
    first = [path for path in files if path.name.startswith("index-") and path.suffix == ".js"]

    assert sum(path.stat().st_size for path in files) <= 1_500_000
    assert sum(len(gzip.compress(path.read_bytes(), 9)) for path in first) <= 180_000


def hash_sources():
    """Return what `frontend/scripts/sources.mjs` makes of the sources of the interface."""
    paths = [FRONTEND / name for name in ("index.html", "package.json", "package-lock.json")]
    paths += [FRONTEND / name for name in ("tsconfig.json", "vite.config.ts")]
    for folder in ("src", "scripts"):
        paths += [path for path in (FRONTEND / folder).rglob("*") if path.is_file()]
    found = hashlib.sha256()
    for path in sorted(paths, key=lambda path: path.relative_to(FRONTEND).as_posix()):
        text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
        name = path.relative_to(FRONTEND).as_posix()
        found.update(f"{name}\0{len(text.encode())}\0{text}".encode())
    return found.hexdigest()

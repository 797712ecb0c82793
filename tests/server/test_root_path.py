"""A server below a path of another site, whose proxy passes the path on or has removed it."""

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.server.server_process import PATIENT

from dokimos._cli.server_mcp import mount_mcp
from dokimos.client import ServerReporter
from dokimos.errors import ConfigurationError
from dokimos.reporting import ReportedStatus
from dokimos.server import ServerSettings
from dokimos.server._api.http.error_responses import list_routes
from dokimos.server._app import create_app
from dokimos.server._sign_in_settings import OWN_PATHS

ROOT = "/tools/dokimos"
SITE = "https://example.com"
BROWSER = {"Accept": "text/html"}
KEY = {"Authorization": "Bearer secret"}
EACH_WAY = pytest.mark.parametrize("way", [ROOT, ""], ids=["passed on", "removed"])
FRONTEND = Path(__file__).parents[2] / "frontend" / "src"


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    settings = ServerSettings(
        host="127.0.0.1",
        data_dir=tmp_path_factory.mktemp("server"),
        api_key="secret",
        public_url=SITE + ROOT,
        **PATIENT,
    )
    app = create_app(settings)
    mount_mcp(app)
    with TestClient(app, base_url=SITE, follow_redirects=False) as client:
        yield client


@EACH_WAY
def test_routes_answer_with_the_root_path_and_without(api, way):
    made = api.post(f"{way}/api/v1/datasets", json={"name": f"a/b {len(way)}"}, headers=KEY)
    assert made.status_code == 201
    assert made.headers["location"] == f"{ROOT}/api/v1/datasets/a%2Fb%20{len(way)}"
    # An encoded slash stays inside its name.
    assert api.get(made.headers["location"]).json()["name"] == f"a/b {len(way)}"
    assert api.get(f"{way}/actuator/health").status_code == 200
    assert api.head(f"{way}/api/v1/projects").status_code == 200
    assert api.post(f"{way}/v1/traces", content=b"", headers=KEY).status_code != 404


@EACH_WAY
@pytest.mark.parametrize("path", ["", "/", "/runs/1", "/projects/a%2Fb"])
def test_pages_name_the_root_path_and_load_from_below_it(api, way, path):
    answer = api.get(way + path, headers={**BROWSER, "Accept-Encoding": "identity"})

    assert answer.status_code == 200
    assert f' <meta name="dokimos-root" content="{ROOT}"><title>' in answer.text
    names = re.findall(r'(?:src|href)="([^"]+)"', answer.text)
    assert len(names) > 3
    assert all(name.startswith(f"{ROOT}/assets/") for name in names)
    assert api.get(names[0]).headers["cache-control"].endswith("immutable")
    again = api.get(way + path, headers={**BROWSER, "If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.parametrize(
    "path", ["/tools/d%6Fkimos", "/%74ools/dokimos", "//tools/dokimos", "/tools/dokimos/"]
)
def test_the_root_path_is_read_as_every_path_is(api, path):
    assert api.get(SITE + path + "/actuator/health").status_code == 200


@pytest.mark.parametrize(
    "path",
    ["/tools/dokimosx", "/tools", "/other/dokimos", "/tools/Dokimos", "/tools%2Fdokimos", "/x/tools/dokimos",
     "/tools/dokimos/tools/dokimos"],
)  # fmt: skip
def test_another_path_of_the_site_is_not_the_servers(api, path):
    answer = api.get(f"{path}/api/v1/projects")

    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/json")


@EACH_WAY
def test_the_cookie_of_a_session_is_not_sent_to_the_rest_of_the_site(api, way):
    own = {"Sec-Fetch-Site": "same-origin"}
    answer = api.post(f"{way}/api/v1/session", json={"key": "secret"}, headers=own)
    assert f"Path={ROOT}/" in answer.headers["set-cookie"].split("; ")
    assert api.get(f"{ROOT}/api/v1/session").json()["isAuthenticated"]
    assert not api.get("/api/v1/session").json()["isAuthenticated"]  # the browser keeps the cookie to itself

    ended = api.delete(f"{ROOT}/api/v1/session", headers=own)
    assert f"Path={ROOT}/" in ended.headers["set-cookie"].split("; ")
    assert not api.get(f"{ROOT}/api/v1/session").json()["isAuthenticated"]


def test_a_session_counts_beside_one_of_the_root_of_the_site(api):
    own = {"Sec-Fetch-Site": "same-origin"}
    token = api.post(f"{ROOT}/api/v1/session", json={"key": "secret"}, headers=own).cookies["dokimos_session"]
    api.cookies.clear()
    both = f"dokimos_session={token}; other=1; dokimos_session=of-the-root"  # the longer path first

    assert api.get(f"{ROOT}/api/v1/session", headers={"Cookie": both}).json()["isAuthenticated"]


def test_the_description_of_the_api_says_where_its_paths_begin(api):
    described = api.get(f"{ROOT}/openapi.json").json()

    assert described["servers"] == [{"url": ROOT}]
    assert "/api/v1/projects" in described["paths"]


def test_agents_call_below_the_root_path(api):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    answer = api.post(f"{ROOT}/mcp", json=message, headers={**KEY, "Accept": "application/json"})

    assert answer.status_code == 200, answer.text
    assert "compare_runs" in answer.text
    assert api.put(f"{ROOT}/api/v1/projects", headers=KEY).status_code == 405  # their route hides no other


def test_a_reporter_finds_a_server_below_a_path(listening, monkeypatch):
    port = listening(public_url=SITE + ROOT)
    monkeypatch.setenv("DOKIMOS_SERVER_URL", f"http://127.0.0.1:{port}{ROOT}/")
    monkeypatch.setenv("DOKIMOS_PROJECT_NAME", "shop")
    reporter = ServerReporter.from_environment()
    run = reporter.start_run("answers", {})
    reporter.complete_run(run, ReportedStatus.SUCCESS)
    reporter.close()

    assert run.server_run_id is not None
    assert reporter.failed_item_count == 0


def test_no_root_path_begins_as_a_path_of_the_server(api):
    pages = re.findall(r'^\s*path: "/([^/"$]+)', "\n".join(text_of_routes()), re.MULTILINE)
    served = [route.path.split("/")[1] for route in list_routes(api.app) if hasattr(route, "path")]

    assert len(pages) > 15
    assert {*pages, *served, "mcp"} == OWN_PATHS


def text_of_routes():
    return [path.read_text(encoding="utf-8") for path in FRONTEND.glob("*rout*.ts*")]


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("https://example.com/api", "which the server itself answers"),
        ("https://example.com/runs/x", "which the server itself answers"),
        ("https://example.com/a//b", "plain names"),
        ("https://example.com/a/../b", "plain names"),
        ("https://example.com/a%20b", "plain names"),
        ("https://example.com/a;b", "plain names"),
        ("https://example.com/a?b", "must end before"),
    ],
)
def test_a_root_path_that_cannot_be_is_refused(url, fault):
    with pytest.raises(ConfigurationError, match=fault) as refusal:
        ServerSettings.from_environment({"DOKIMOS_PUBLIC_URL": url})
    assert refusal.value.setting == "DOKIMOS_PUBLIC_URL"


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("https://example.com", ""), ("https://example.com/", ""),
        ("https://example.com/dokimos/", "/dokimos"),
        ("https://example.com/my-team/evals_2.0", "/my-team/evals_2.0"),
    ],
)  # fmt: skip
def test_the_root_path_is_that_of_the_public_address(url, root):
    settings = ServerSettings.from_environment({"DOKIMOS_PUBLIC_URL": url})

    assert (settings.root_path, settings.public_url) == (root, url.rstrip("/"))

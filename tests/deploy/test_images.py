"""The images: what is in them, who they run as, and whether their commands exist."""

import json
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml
from tests.deploy.deployment_files import (
    ROOT,
    list_health_paths,
    list_stages,
    list_variables,
    read_dockerfile,
)

from dokimos import __version__
from dokimos._cli.main import run_command

IMAGES = ("mcp-server", "server")
LABELS = ("title", "description", "licenses", "version", "revision", "source")
HEALTH = "/actuator/health"


def value_of(image, keyword):
    """Return the value that counts: the last one."""
    return [value for stage in list_stages(image) for value in stage.values(keyword)][-1]


def health_commands():
    """The checks of the image and of the compose file, as programs of Python with their arguments."""
    image = json.loads(value_of("server", "HEALTHCHECK").partition(" CMD ")[2])
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    kind, *words = compose["services"]["server"]["healthcheck"]["test"]
    assert kind == "CMD"
    return {"image": image, "compose": words}


def test_the_server_is_built_by_default_from_a_pinned_base():
    arguments, stages = read_dockerfile()

    assert [*stages][-1] == "server"
    assert re.fullmatch(r"3\.\d+", arguments["PYTHON_VERSION"])
    for stage in stages.values():
        assert stage.base in stages or re.fullmatch(r"python:\$\{PYTHON_VERSION\}-slim-\w+", stage.base)


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_runs_as_a_user_without_rights(image):
    user, group = value_of(image, "USER").split(":")
    accounts = " ".join(step for stage in list_stages(image) for step in stage.values("RUN"))

    assert user.isdecimal()
    assert group.isdecimal()
    assert user != "0" != group
    assert f"--uid {user}" in accounts
    assert f"-o {user}" in accounts, "its folders would belong to somebody else"


@pytest.mark.parametrize("image", IMAGES)
def test_the_command_of_an_image_exists(image, capsys):
    entry = json.loads(value_of(image, "ENTRYPOINT"))
    command = json.loads(value_of(image, "CMD")) if image == "server" else []

    assert entry[0] == "dokimos"
    assert run_command([*entry[1:], *command, "--help"]) == 0
    assert f"Usage: dokimos {'serve' if image == 'server' else 'mcp'} " in capsys.readouterr().out


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_installs_the_wheel_with_extras_that_exist(image):
    _, stages = read_dockerfile()
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [(name, extras)] = [a.split("=") for a in stages[image].values("ARG") if "EXTRAS" in a]
    [install] = stages[image].values("RUN")

    assert set(extras.split(",")) <= set(known["optional-dependencies"])
    assert f'"$(ls /dist/*.whl)[${{{name}}}]"' in install
    assert "-c /dist/constraints.txt" in install


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_says_what_it_is(image):
    _, stages = read_dockerfile()
    labels = stages[image].pairs("LABEL")
    arguments = stages[image].values("ARG")

    assert set(labels) == {f"org.opencontainers.image.{name}" for name in LABELS}
    assert f"VERSION={__version__}" in arguments
    assert labels["org.opencontainers.image.version"] == "${VERSION}"


def test_the_variables_of_the_server_are_those_that_it_reads():
    given = {name for stage in list_stages("server") for name in stage.pairs("ENV")}

    assert given - {"PATH", "HOME", "TMPDIR", "PYTHONDONTWRITEBYTECODE"} <= list_variables()


def test_the_build_sees_what_it_copies_and_nothing_else():
    _, stages = read_dockerfile()
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    copied = {word for value in stages["build"].values("COPY") for word in shlex.split(value)[:-1]}

    assert "*" in ignored
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    assert all((ROOT / name).exists() for name in copied)


def test_the_checks_of_health_ask_for_what_the_server_answers():
    for words in health_commands().values():
        assert words[0] == "python"
        assert re.findall(r"'(/\S*?)'", words[2]) == [HEALTH]
    assert HEALTH in list_health_paths()


def test_the_page_on_mcp_mounts_what_the_image_uses():
    page = (ROOT / "docs" / "guide" / "mcp.md").read_text(encoding="utf-8")
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    [server] = [
        b["mcpServers"]["dokimos"] for b in blocks if b["mcpServers"]["dokimos"]["command"] == "docker"
    ]
    volumes = [word.split(":")[1] for word in server["args"] if ":/" in word]
    home = list_stages("mcp-server")[0].pairs("ENV")["HOME"]
    entry = json.loads(value_of("mcp-server", "ENTRYPOINT"))

    assert "-i" in server["args"]
    assert server["args"][-1] == f"dokimos-mcp-server:{__version__}"
    assert volumes == [f"{home}/.dokimos", entry[entry.index("--allow") + 1]]


class Health(BaseHTTPRequestHandler):
    """Answers with the status of the test."""

    status = 200

    def do_GET(self):
        self.send_response(self.status if self.path == HEALTH else 404)
        self.end_headers()

    def log_message(self, *arguments):
        pass


@pytest.mark.parametrize("place", ["image", "compose"])
def test_a_check_of_health_passes_only_where_the_server_says_so(place, monkeypatch):
    _, option, code = health_commands()[place]
    with ThreadingHTTPServer(("127.0.0.1", 0), Health) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = str(server.server_address[1])
        code = code.replace(" 8080,", f" {port},")  # of the compose file, which sets the port itself

        def check():
            command = [sys.executable, option, code]
            return subprocess.run(command, env={"SERVER_PORT": port}, capture_output=True).returncode

        assert check() == 0
        monkeypatch.setattr(Health, "status", 503)
        assert check() == 1
        server.shutdown()
    assert check() == 1  # nobody listens

"""The commands of the images, run as the images run them: another user, a root that cannot be written.

There is no container engine on every machine, so a folder becomes the root. It gets what the Dockerfile puts
there: the wheel is built from the files that it copies, by its command, and installed by its command, except
that the packages which its extras bring are linked from those of these tests.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.deploy.bare_root import BareRoot, base_python, link_distributions, site_packages
from tests.deploy.deployment_files import ROOT, list_stages, read_dockerfile
from tests.deploy.test_images import health_commands, value_of
from tests.servers.ports import find_port

from dokimos import __version__

pytestmark = [
    pytest.mark.skipif(
        "DOKIMOS_LONG_TESTS" not in os.environ, reason="builds a wheel; needs DOKIMOS_LONG_TESTS"
    ),
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="only root on Linux may change its root"
    ),
    pytest.mark.skipif(
        not all(map(shutil.which, ("unshare", "setpriv", "chroot"))), reason="util-linux is not installed"
    ),
]
PIP = f'pip() {{ {shlex.quote(sys.executable)} -m pip "$@"; }}\n'


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built by the command of the Dockerfile from what it copies."""
    folder = tmp_path_factory.mktemp("build")
    source, dist = folder / "source", folder / "dist"
    source.mkdir()
    _, stages = read_dockerfile()
    for value in stages["build"].values("COPY"):
        for name in shlex.split(value)[:-1]:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, source / name)
    [build] = stages["build"].values("RUN")
    script = PIP + build.replace("/dist", str(dist))
    outcome = subprocess.run(["sh", "-c", script], cwd=source, capture_output=True, text=True)
    if "No matching distribution found for hatchling" in outcome.stderr:
        pytest.skip("what builds wheels cannot be fetched")
    assert outcome.returncode == 0, outcome.stderr
    assert (dist / "constraints.txt").exists()
    [wheel] = dist.glob("*.whl")
    return wheel


@pytest.fixture
def install(tmp_path, wheel):
    """A function that returns the root of an image, and the variables of its processes."""

    def make(image, volumes):
        root = tmp_path / image
        root.mkdir(mode=0o755)
        bare = BareRoot(root, volumes, (base_python(), site_packages()))
        user, _ = value_of(image, "USER").split(":")
        (root / "etc/passwd").write_text(f"dokimos:x:{user}:{user}::/home/dokimos:/usr/sbin/nologin\n")
        shutil.copy(wheel, root / "dist")
        python = {"PATH": f"{base_python()}/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        for folder in ("home/dokimos", "opt"):
            (root / folder).mkdir(parents=True)
        for step in value_of_base("RUN").split(" && "):
            if step.startswith(("install ", "python -m venv")):
                bare.run(["sh", "-c", step], environment=python, is_read_only=False)
        _, stages = read_dockerfile()
        [step] = stages[image].values("RUN")
        # Without the packages of others, which are linked.
        command = re.sub(
            r'-c /dist/constraints.txt "\$\(ls /dist/\*\.whl\)\[.*\]"',
            "--no-index --no-deps /dist/*.whl",
            step[step.index("pip ") :],
        )
        assert command.endswith("/*.whl")
        bare.run(["sh", "-c", command], environment=python, is_read_only=False)
        [extras] = [value.split("=")[1] for value in stages[image].values("ARG") if "EXTRAS" in value]
        [target] = (root / "opt/dokimos/lib").glob("python*/site-packages")
        link_distributions(wheel, extras.split(","), target)
        pairs = {name: value for stage in list_stages(image) for name, value in stage.pairs("ENV").items()}
        path = pairs.pop("PATH").replace("$PATH", python["PATH"])
        return bare, {"PATH": path, **pairs}

    return make


def value_of_base(keyword):
    _, stages = read_dockerfile()
    [value] = stages["base"].values(keyword)
    return value


def child_of(process):
    [child] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(child)


def test_the_server_runs_without_rights_on_a_root_that_it_cannot_write(install):
    bare, environment = install("server", ["/data"])
    port = str(find_port())
    environment["SERVER_PORT"] = port
    words = [*json.loads(value_of("server", "ENTRYPOINT")), *json.loads(value_of("server", "CMD"))]
    command = bare.command(
        words,
        environment=environment,
        user=value_of("server", "USER"),
        folder=value_of("server", "WORKDIR"),
    )
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line.startswith("dokimos answers at"), process.communicate()[1]
        server = child_of(process)
        status = Path(f"/proc/{server}/status").read_text()
        mounts = Path(f"/proc/{server}/mountinfo").read_text().splitlines()
        [options] = [mount.split()[5] for mount in mounts if mount.split()[4] == "/"]
        assert re.search(r"^Uid:\t10001\t10001", status, re.MULTILINE)
        assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
        assert "ro" in options.split(",")

        _, option, code = health_commands()["image"]
        check = subprocess.run([sys.executable, option, code], env={"SERVER_PORT": port}, capture_output=True)
        assert check.returncode == 0, check.stderr
        page = urllib.request.Request(f"http://127.0.0.1:{port}/", headers={"Accept": "text/html"})
        with urllib.request.urlopen(page, timeout=60) as page:
            assert b'<div id="root">' in page.read()
        body = json.dumps({"experimentName": "qa"}).encode()
        headers = {"Content-Type": "application/json"}
        run = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/projects/chat/runs", body, headers)
        with urllib.request.urlopen(run, timeout=60) as answer:
            assert answer.status == 201

        os.kill(server, signal.SIGTERM)
        output, log = process.communicate(timeout=120)
        assert (process.returncode, output) == (0, "Stopped.\n"), log
        assert "Traceback" not in log
    finally:
        process.kill()
    assert (bare.folder / "data/server.db").stat().st_uid == 10001


def test_the_mcp_server_speaks_over_standard_input_and_output(install):
    bare, environment = install("mcp-server", ["/home/dokimos/.dokimos"])
    (bare.folder / "data/qa.json").write_text(json.dumps({"name": "qa", "examples": [{"input": "1 + 1"}]}))
    (bare.folder / "data").chmod(0o755)
    start = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "list_datasets", "arguments": {}},
        },
    ]
    command = bare.command(
        json.loads(value_of("mcp-server", "ENTRYPOINT")),
        environment=environment,
        user=value_of("mcp-server", "USER"),
        folder=value_of("mcp-server", "WORKDIR"),
    )
    text = "".join(json.dumps(request) + "\n" for request in requests)
    outcome = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    first, second = map(json.loads, outcome.stdout.splitlines())

    assert outcome.returncode == 0, outcome.stderr
    assert first["result"]["serverInfo"]["version"] == __version__
    assert "qa.json" in json.dumps(second["result"])

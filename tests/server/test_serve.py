"""`dokimos serve`, as a process of its own."""

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest


@pytest.fixture
def start(tmp_path):
    """A function that starts the command; what it started is ended after the test."""
    processes = []

    def run(*options, **variables):
        names = ("DB_", "DOKIMOS_", "SERVER_", "SPRING_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(names)}
        process = subprocess.Popen(
            [sys.executable, "-m", "dokimos", "serve", *options],
            env={**environment, "DOKIMOS_DATA_DIR": str(tmp_path / "data"), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def read(address):
    with urllib.request.urlopen(address, timeout=20) as answer:
        return json.load(answer)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_answers_and_ends_quietly_on_a_signal(start, number, tmp_path):
    process = start("--host", "127.0.0.1", "--port", "0")
    line = process.stdout.readline()
    address = line.split()[3]

    assert line.startswith("dokimos answers at http://127.0.0.1:")
    assert read(f"{address}/actuator/health/readiness")["status"] == "UP"
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "Stopped.\n")
    [logged] = errors.splitlines()
    file = re.escape(str(tmp_path / "data" / "server.db"))
    assert re.search(
        rf"dokimos \S+ answers at {address}: SQLite \S+ at {file}, schema \d+; no key is needed\.", logged
    )


def test_what_was_stored_is_there_after_a_restart(start):
    for turn in range(2):
        process = start("--host", "127.0.0.1", "--port", "0")
        address = process.stdout.readline().split()[3]
        if turn == 0:
            body = json.dumps({"experimentName": "qa"}).encode()
            request = urllib.request.Request(
                f"{address}/api/v1/projects/chat/runs", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=20) as answer:
                assert answer.status == 201
        assert [project["name"] for project in read(f"{address}/api/v1/projects")] == ["chat"]
        process.kill()
        process.wait()


def test_a_port_in_use_is_an_error_that_says_so(start):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        process = start("--host", "127.0.0.1", "--port", str(port))
        _, errors = process.communicate(timeout=60)

    assert process.returncode == 2
    assert errors.startswith(
        f"Error: The server cannot listen at 127.0.0.1:{port}: {os.strerror(errno.EADDRINUSE)};"
    )
    assert "choose another port with --port" in errors
    assert "Traceback" not in errors


def test_a_database_that_cannot_be_reached_is_an_error_without_its_password(start):
    process = start(
        "--host", "127.0.0.1", "--port", "0", DB_HOST="127.0.0.1", DB_PORT="1", DB_PASSWORD="hunter2"
    )
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 2
    assert errors.startswith(
        "Error: The database cannot be used: postgresql://dokimos:***@127.0.0.1:1/dokimos: "
    )
    assert "hunter2" not in errors
    assert "Traceback" not in errors


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(start, tmp_path):
    (tmp_path / "file").write_text("")

    process = start("--host", "127.0.0.1", "--port", "0", "--data-dir", str(tmp_path / "file" / "data"))
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 2
    assert errors.startswith("Error: The database cannot be used: ")
    assert str(tmp_path / "file" / "data") in errors
    assert "Traceback" not in errors


def test_an_open_server_that_others_can_reach_says_so(start):
    process = start("--port", "0")
    process.stdout.readline()
    process.terminate()
    _, errors = process.communicate(timeout=60)

    assert "Anyone who reaches port" in errors
    assert "DOKIMOS_API_KEY" in errors


def test_a_second_server_on_the_same_folder_is_refused_until_the_first_one_has_ended(start, tmp_path):
    first = start("--host", "127.0.0.1", "--port", "0")
    first.stdout.readline()

    second = start("--host", "127.0.0.1", "--port", "0")
    _, errors = second.communicate(timeout=60)
    assert second.returncode == 2
    assert errors == (
        f"Error: Another server (process {first.pid}) keeps its data in {tmp_path / 'data'}. Stop that one, "
        "choose another folder with --data-dir, or use PostgreSQL, which several servers can share.\n"
    )

    first.kill()  # kill -9: nothing is cleaned up, and nothing is left that keeps others out
    first.wait()
    third = start("--host", "127.0.0.1", "--port", "0")
    assert third.stdout.readline().startswith("dokimos answers at ")


def test_what_only_reads_works_beside_a_server(start, tmp_path):
    from sqlalchemy import select

    from dokimos.server import ServerSettings
    from dokimos.server._db.database import read_once
    from dokimos.server._db.tables import PROJECTS

    process = start("--host", "127.0.0.1", "--port", "0")
    process.stdout.readline()

    settings = ServerSettings(data_dir=tmp_path / "data")
    assert read_once(settings, lambda connection: connection.execute(select(PROJECTS)).all()) == []

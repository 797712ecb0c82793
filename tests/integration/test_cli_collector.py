"""What commands do with the garbage collector: nothing that a suite or its modules could notice."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dokimos._cli.main import run_command

AGENT = """
import gc

enabled = {"import": gc.isenabled()}


def agent(text):
    enabled["call"] = gc.isenabled()
    return text
"""
SUITE = """
name: small
agent: app.py:agent
evaluations: {metrics: [{type: standard, metric: equality}]}
test_cases: [{input: a, ground_truth: a}]
"""
DECLARED = """model: {provider: openai, name: small, base_url: "http://127.0.0.1:9", api_key: secret}
instructions: {inline: Help.}"""
HOLDS_FILE = """

class Log:
    file = open("log.txt", "w")


def agent(text):
    Log.file.write(text)
    return text
"""
ODD_MODULE = """
import sys


class Odd:
    @property
    def __dict__(self):
        raise RuntimeError("not here")


sys.modules["odd"] = Odd()
"""
COUNT_AT_EXIT = """
import atexit, gc, sys
from dokimos._cli.main import main

atexit.register(lambda: print("frozen" if gc.get_freeze_count() > 5_000 else "collected"))
main(sys.argv[1:])
"""


def run_python(folder, *arguments):
    # Without what measures coverage: it would be a module of somebody else.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=variables)
    return done.stdout.splitlines()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite.yaml").write_text(SUITE)
    return tmp_path


def test_modules_and_agents_of_the_user_run_with_the_collector(folder):
    (folder / "app.py").write_text(AGENT)

    assert run_command(["test", "suite.yaml", "-q"]) == 0

    assert sys.modules["app"].enabled == {"import": True, "call": True}
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_the_collector_is_enabled_after_a_suite_that_cannot_be_loaded(folder):
    (folder / "suite.yaml").write_text("name: small\n")

    assert run_command(["test", "suite.yaml", "-q"]) == 2

    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_files_that_a_class_of_the_user_holds_are_written(folder):
    (folder / "app.py").write_text(HOLDS_FILE)

    run_python(folder, "-m", "dokimos", "test", "suite.yaml", "-q")

    assert Path("log.txt").read_text() == "a"


def test_the_process_ends_without_a_collection(folder):
    assert run_python(folder, "-c", COUNT_AT_EXIT, "evaluators")[-1] == "frozen"


def test_the_process_ends_as_ever_where_code_of_the_user_leaves_something(folder):
    (folder / "app.py").write_text(HOLDS_FILE)

    assert run_python(folder, "-c", COUNT_AT_EXIT, "test", "suite.yaml", "-q")[-1] == "collected"


def test_a_module_that_cannot_be_looked_at_does_not_fail_the_command(folder):
    assert run_python(folder, "-c", ODD_MODULE + COUNT_AT_EXIT, "evaluators")[-1] == "collected"


def test_an_installed_package_that_the_user_names_is_code_of_the_user(folder):
    (folder / "suite.yaml").write_text(SUITE.replace("app.py:agent", "sqlite3:complete_statement"))

    assert (
        run_python(folder, "-c", COUNT_AT_EXIT, "test", "suite.yaml", "-q", "--fail-under", "equality=0")[-1]
        == "collected"
    )


def test_the_framework_of_a_declared_agent_is_imported_without_the_collector(folder, monkeypatch):
    from dokimos.errors import MissingExtraError
    from dokimos.suites._agent import application

    enabled = []

    def require(module, extra):
        enabled.append(gc.isenabled())
        raise MissingExtraError(f"{module} is not installed.")

    monkeypatch.setattr(application, "require", require)
    (folder / "suite.yaml").write_text(SUITE.replace("agent: app.py:agent", DECLARED))

    run_command(["test", "suite.yaml", "-q"])

    assert enabled == [False]
    assert gc.isenabled()

"""The page on configuration names the environment variables that the server reads, and no others."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "server-configuration.md"
VARIABLE = re.compile(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`")


class Recorder(Mapping):
    """An environment that notes which of its variables are read."""

    def __init__(self, **variables):
        self.variables, self.names = variables, set()

    def __getitem__(self, name):
        self.names.add(name)
        return self.variables[name]

    def __iter__(self):
        return iter(self.variables)

    def __len__(self):
        return len(self.variables)


def read_variables():
    pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
    from dokimos._http import address_policy
    from dokimos.server import ServerSettings

    # One of a group of variables hides the others.
    environments = [Recorder(), Recorder(DB_HOST="localhost")]
    for environment in environments:
        ServerSettings.from_environment(environment)
    names = {name for environment in environments for name in environment.names}
    return {*names, address_policy.ALLOWED_HOSTS}


def test_the_page_names_what_the_server_reads():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    tables = "\n".join(line for line in lines if line.startswith("| `"))

    assert set(VARIABLE.findall(tables)) == read_variables()


def test_the_defaults_on_the_page_are_those_of_the_settings():
    pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
    from dokimos.server import ServerSettings

    rows = re.findall(r"^\| `([A-Z_]+)` \| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    def settings(environment):
        return ServerSettings.from_environment(environment)

    given = dict(rows)
    assert len(given) > 10
    plain = {name: value for name, value in given.items() if not name.startswith(("DB_", "SPRING_"))}
    assert settings(plain) == settings({})

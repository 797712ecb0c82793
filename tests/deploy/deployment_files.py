"""The files with which the server is deployed, parsed, and what the server makes of their settings."""

import re
import shlex
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
INSTRUCTIONS = {
    "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "HEALTHCHECK", "LABEL", "RUN", "USER", "VOLUME",
    "WORKDIR",
}  # fmt: skip


@dataclass
class Stage:
    """A stage of a Dockerfile."""

    name: str
    base: str
    steps: list = field(default_factory=list)
    """Keyword and value of each instruction."""

    def values(self, keyword):
        return [value for name, value in self.steps if name == keyword]

    def pairs(self, keyword):
        """The variables of ENV, or the labels of LABEL."""
        return dict(word.split("=", 1) for value in self.values(keyword) for word in shlex.split(value))


def parse_dockerfile(text):
    """Return the arguments before the first stage, and the stages by name; refuses odd instructions."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    arguments, stages = {}, {}
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        keyword, _, value = line.strip().partition(" ")
        value = re.sub(r"\s+", " ", value.strip())
        if keyword == "FROM":
            base, _, name = value.partition(" AS ")
            stages[name] = stage = Stage(name, base)
        elif not stages:
            assert keyword == "ARG", line
            arguments |= [value.split("=")]
        else:
            assert keyword in INSTRUCTIONS, line
            assert value, line
            stage.steps.append((keyword, value))
    return arguments, stages


@cache
def read_dockerfile():
    return parse_dockerfile((ROOT / "Dockerfile").read_text(encoding="utf-8"))


def list_stages(name):
    """Return a stage and those that it is based on, itself last."""
    _, stages = read_dockerfile()
    stage = stages[name]
    return [*(list_stages(stage.base) if stage.base in stages else []), stage]


def read_documents(path):
    """Return the documents of a YAML file by their kind."""
    documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    kinds = {document["kind"]: document for document in documents}
    assert len(kinds) == len(documents)
    return kinds


def list_variables():
    """Return the names of the environment variables that the server reads."""
    from tests.docs.test_server_configuration import read_variables

    return read_variables()


def read_settings(environment):
    """Return the settings that the server reads; fails where it does not know a variable or a value."""
    pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
    from dokimos.server import ServerSettings

    assert set(environment) <= list_variables()
    return ServerSettings.from_environment(environment)


@cache
def list_health_paths():
    """Return the paths at which the server says how it is."""
    pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
    from dokimos.server._api.health_routes import ROUTER

    return {route.path for route in ROUTER.routes}

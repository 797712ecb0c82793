"""Variables from `.env` files, and settings from the configuration of the project and of the user."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dokimos._runtime.file_access import files_read
from dokimos.errors import ConfigurationError
from dokimos.suites._document import Document, deep_merge, read_yaml
from dokimos.suites._interpolation import Lookup
from dokimos.suites._problems import Location, Problem, Steps, suggest

_ASSIGNMENT: Final = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
# Only after white space: a # inside a value is part of it, as in URLs and passwords.
_COMMENT: Final = re.compile(r"\s+#.*$")
HOMES: Final = (".dokimos", ".holodeck")
CONFIG_NAMES: Final = ("config.yml", "config.yaml")
CONFIG_KEYS: Final = ("providers", "vectorstores", "execution", "deployment", "mcp_servers")
_PREFIXES: Final = ("DOKIMOS_", "HOLODECK_")
_SWITCHES: Final = ("cache_enabled", "verbose", "quiet")
_COUNT: Final = "parallel_test_cases"
_AMOUNTS: Final = ("file_timeout", "llm_timeout", "download_timeout", _COUNT)


def read_dotenv(folder: Path) -> dict[str, str]:
    """Return what the `.env` files say: the working directory's before the suite's before the user's."""
    variables: dict[str, str] = {}
    for each in (Path.cwd(), folder, *(home / name for home in _home() for name in HOMES)):
        path = each / ".env"
        if path.is_file():
            variables = {**parse_dotenv(path.read_text(encoding="utf-8-sig", errors="replace")), **variables}
        else:
            files_read.record_missing(path)
    return variables


def export_dotenv(folder: Path) -> None:
    """Put what the `.env` files say into the environment; what is set there already stays."""
    for name, value in read_dotenv(folder).items():
        os.environ.setdefault(name, value)


def build_lookup(folder: Path) -> Lookup:
    """Return the lookup of environment variables: the process environment first, then the `.env` files."""
    values = read_dotenv(folder)
    return lambda name: os.environ.get(name, values.get(name))


@dataclass(frozen=True, slots=True)
class Settings:
    """What project and user have configured, the project's first."""

    values: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    locations: Mapping[Steps, Location] = field(default_factory=dict)

    def of_provider(self, block: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings of a model's provider: the entry of its name, else one that names it."""
        providers = self.values.get("providers")
        if not isinstance(providers, Mapping):
            return {}
        name = block.get("provider")
        entries = [entry for entry in providers.values() if isinstance(entry, Mapping)]
        found = providers.get(name) or next((e for e in entries if e.get("provider") == name), None)
        return found if isinstance(found, Mapping) else {}


def read_settings(folder: Path, lookup: Lookup) -> Settings:
    """Read the configuration next to a suite and in the user's home."""
    documents = [
        document for location in (folder, *_user_folders()) if (document := _config(location, lookup))
    ]
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    locations: dict[Steps, Location] = {}
    for document in documents:
        problems += document.problems
        locations = {**document.locations, **locations}
        if isinstance(document.value, Mapping):
            problems += _unknown_keys(document)
            values = deep_merge(values, document.value)
        elif document.value is not None:
            problems.append(document.problem((), "the configuration must be a map"))
    return Settings(values, tuple(problems), locations)


def read_execution_settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the execution settings that variables give, such as `DOKIMOS_LLM_TIMEOUT`.

    Raises:
        ConfigurationError: for a variable that should be a number and is none.
    """
    settings: dict[str, Any] = {}
    for name in (*_AMOUNTS, *_SWITCHES, "cache_dir"):
        variable = next((key for p in _PREFIXES if (key := p + name.upper()) in environment), None)
        if variable is None:
            continue
        value_text = environment[variable]
        if name in _SWITCHES:
            settings[name] = value_text.strip().lower() in ("true", "1", "yes", "on")
        elif name == "cache_dir":
            settings[name] = value_text
        elif value_text.strip():
            settings[name] = _amount(variable, value_text, int if name == _COUNT else float)
    return settings


def _amount(variable: str, value_text: str, kind: type[int] | type[float]) -> float:
    with contextlib.suppress(ValueError):
        amount = kind(value_text)
        if 0 < amount < math.inf:
            return amount
    what = "a whole number" if kind is int else "a number"
    raise ConfigurationError(f"The variable {variable} must be {what} above 0, not {value_text!r}.")


def _config(folder: Path, lookup: Lookup) -> Document | None:
    for path in (folder / name for name in CONFIG_NAMES):
        if path.is_file():
            return read_yaml(path, lookup)
        files_read.record_missing(path)
    return None


def _unknown_keys(document: Document) -> list[Problem]:
    allowed = ", ".join(CONFIG_KEYS)
    return [
        document.problem((key,), f"there is no key {key!r}.{suggest(key, CONFIG_KEYS)} Keys: {allowed}.")
        for key in document.value
        if key not in CONFIG_KEYS
    ]


def _user_folders() -> list[Path]:
    return [home / name for home in _home() for name in HOMES]


def _home() -> list[Path]:
    try:
        return [Path.home()]
    # A process may run under a user id that has no home, as in many containers.
    except RuntimeError:
        return []


def parse_dotenv(text: str) -> dict[str, str]:
    """Return the variables that the text of a `.env` file sets."""
    values = {}
    for line in text.splitlines():
        match = _ASSIGNMENT.fullmatch(line)
        if match is not None:
            values[match[1]] = _unquote(match[2])
    return values


def _unquote(text: str) -> str:
    if text[:1] in ("'", '"'):
        end = text.find(text[0], 1)
        if end > 0:
            return text[1:end]
    return "" if text.startswith("#") else _COMMENT.sub("", text)

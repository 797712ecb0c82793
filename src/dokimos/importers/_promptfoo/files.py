"""Reading the files of a configuration of promptfoo."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from dokimos._core.jsonable import jsonable
from dokimos._core.yaml_scalars import load_yaml
from dokimos.errors import ConfigurationError
from dokimos.suites._json_values import read_json


def read_text_file(path: Path) -> str:
    """Return a file with its own line ends. Raises `ConfigurationError` where it cannot be read."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return file.read()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None


def read_data_file(path: Path) -> Any:
    """Return the content of a YAML, JSON or JSONL file as JSON has it.

    Raises:
        ConfigurationError: for a file that cannot be read.
    """
    import yaml

    text = read_text_file(path)
    try:
        match path.suffix.lower():
            case ".jsonl":
                return [read_json(path, line, first_line=number) for number, line in _lines(text)]
            case ".json":
                return read_json(path, text)
        return jsonable(load_yaml(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None


def _lines(text: str) -> list[tuple[int, str]]:
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def folder_of_caller() -> Path:
    """Return the folder of the module that calls the function which calls this: paths are relative to it."""
    # Two frames up: the module beside the suite, which calls python_assertion() or another one.
    return Path(sys._getframe(2).f_globals.get("__file__", ".")).resolve().parent

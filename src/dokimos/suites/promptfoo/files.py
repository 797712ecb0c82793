"""Reading the files of a configuration of promptfoo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dokimos.core.jsonable import jsonable
from dokimos.core.yaml_scalars import plain_loader
from dokimos.errors import ConfigurationError


def text_of(path: Path) -> str:
    """Return what is in a file. Raises `ConfigurationError` where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None


def data_of(path: Path) -> Any:
    """Return the content of a YAML, JSON or JSONL file as JSON has it; `yes`, `on` and dates are texts.

    Raises:
        ConfigurationError: for a file that cannot be read.
    """
    import yaml

    text = text_of(path)
    try:
        if path.suffix == ".jsonl":
            return jsonable([json.loads(line) for line in text.split("\n") if line.strip()])
        return jsonable(yaml.load(text, plain_loader()))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None

"""The values of assertions, with their templates filled in or read from the files that they name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from dokimos.importers._promptfoo.conversion_notes import Notes
from dokimos.importers._promptfoo.files import read_data_file, read_text_file
from dokimos.importers._promptfoo.templates import escape_all, render, render_program

FILE: Final = "file://"


def read_value(value: object, folder: Path, variables: Mapping[str, Any], notes: Notes) -> Any:
    """Return the value of an assertion, ready to stand in a suite.

    Raises:
        TemplateRefused: One of its templates cannot be filled in as promptfoo does.
    """
    if not isinstance(value, str) or not value.startswith(FILE):
        return render(value, variables, notes)
    if not value.endswith((".json", ".yaml", ".yml", ".txt")):
        return value
    path = folder / value.removeprefix(FILE)
    if not path.is_file():
        notes.lose(f"{value}: there is no such file")
        return None
    if path.suffix == ".txt":
        return render(read_text_file(path).strip(), variables, notes)
    return escape_all(read_data_file(path))


def read_program(value: object, folder: Path, variables: Mapping[str, Any], notes: Notes) -> str:
    """Return the program of an assertion, or the reference to its file.

    Raises:
        TemplateRefused: One of its templates cannot be filled in, or needs the environment.
    """
    if not isinstance(value, str):
        return ""
    if value.strip().startswith(FILE):
        return value.strip()
    return render_program(value, variables, notes)

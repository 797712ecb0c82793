"""Map the columns of a foreign table to our names, and guess the mapping where none is configured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from dokimos._core.jsonable import camel_case
from dokimos._core.keys import INPUT, OUTPUT
from dokimos.errors import ConfigurationError, DatasetError

_NAMES: Final = (
    "id", "input", "inputs", "expected_output", "expected_outputs", "metadata",
    "actual_output", "actual_outputs", "actual_error", "metrics",
)  # fmt: skip
WIRE_NAMES: Final = {name: camel_case(name) for name in _NAMES} | {
    camel_case(n): camel_case(n) for n in _NAMES
}
"""Both spellings of the names of our own fields, and what they are in a file."""

SECTIONS: Final = ("inputs", "expectedOutputs", "actualOutputs", "metadata")
"""The maps of a row; a column such as `inputs.question` is a key of one."""
_SHORTHANDS: Final = {
    "input": ("inputs", INPUT),
    "expectedOutput": ("expectedOutputs", OUTPUT),
    "actualOutput": ("actualOutputs", OUTPUT),
}
_REPLACEABLE: Final[dict[str, tuple[str, str | None]]] = {
    "actualOutput": ("actualOutputs", OUTPUT),
    "actualError": ("actualError", None),
    "metrics": ("metrics", None),
}
"""Columns that are the user's metadata where another one stands for the same."""
_TARGETS: Final = (
    "input, inputs, inputs.KEY, expected_output, expected_outputs, expected_outputs.KEY, "
    "actual_output, actual_outputs, actual_outputs.KEY, actual_error, metadata, metadata.KEY, id, metrics"
)

_INPUT_ALIASES: Final = (
    "input", "question", "query", "prompt", "userinput", "instruction", "user", "problem", "message", "text",
    "request",
)  # fmt: skip
# Words such as "answer" are in both lists: alone they mean the expected output, and beside a clearer word
# for that the recorded one.
_EXPECTED_ALIASES: Final = (
    "expectedoutput", "groundtruth", "reference", "referenceanswer", "expectedanswer", "expected", "target",
    "gold", "label", "ideal", "idealanswer", "correctanswer", "answer", "completion", "response", "output",
    "prediction",
)  # fmt: skip
_ACTUAL_ALIASES: Final = (
    "answer",
    "response",
    "prediction",
    "completion",
    "generated",
    "modeloutput",
    "output",
)


def check_columns(columns: object) -> None:
    """Raise `ConfigurationError` unless this is None or maps names to names."""
    if columns is None:
        return
    if not isinstance(columns, Mapping):
        raise ConfigurationError(
            f"columns must be a mapping such as {{'question': 'input'}}, not {columns!r:.80}."
        )
    for source, target in columns.items():
        if not isinstance(source, str) or not isinstance(target, str):
            raise ConfigurationError(
                f"columns must map names to names, not {source!r:.40} to {target!r:.40}."
            )


class ColumnMap:
    """The `columns={"question": "input", ...}` that a user gave, checked."""

    def __init__(self, columns: Mapping[str, str], label: str | None = None) -> None:
        self._label = label
        self.targets = {source: parse_target(source, name) for source, name in columns.items()}
        self._refuse_doubles()

    def apply(self, row: Mapping[str, Any], line: int | None = None) -> dict[str, Any]:
        """Return the row with its columns under the names that they stand for."""
        others = {name: value for name, value in row.items() if name not in self.targets}
        aside = self._find_replaced(others, row)
        renamed = {WIRE_NAMES.get(k, k): v for k, v in others.items() if k not in aside}
        sections = self._sections_of(renamed, row, line)
        for source, (section, key) in self.targets.items():
            if source not in row:
                continue
            if key is None:
                self._put(renamed, section, row[source], line)
            else:
                self._put(sections[section], key, row[source], line, section)
        whole = renamed | sections
        metadata = whole.get("metadata") or {}
        if aside and isinstance(metadata, dict):
            whole["metadata"] = {**metadata, **{name: row[name] for name in aside}}
        return whole

    def _find_replaced(self, others: Mapping[str, Any], row: Mapping[str, Any]) -> list[str]:
        """Return what has one of our names but is not ours, since the user has named another column."""
        written = {target for source, target in self.targets.items() if source in row}
        return [name for name in others if _REPLACEABLE.get(WIRE_NAMES.get(name, name)) in written]

    def _sections_of(
        self, renamed: dict[str, Any], row: Mapping[str, Any], line: int | None
    ) -> dict[str, dict[str, Any]]:
        """Take out the maps that will be written to, each with its short form folded in."""
        written = [target for source, target in self.targets.items() if source in row]
        sections: dict[str, dict[str, Any]] = {}
        for section in dict.fromkeys(section for section, key in written if key is not None):
            content = renamed.pop(section, None)
            if not isinstance(content, dict) and content is not None:
                message = f"{section!r} must be an object, so that another column can be put into it."
                raise DatasetError(message, path=self._label, line=line)
            sections[section] = dict(content or {})
            short = next((s for s, (of, _) in _SHORTHANDS.items() if of == section), None)
            if short in renamed and not sections[section]:
                sections[section][_SHORTHANDS[short][1]] = renamed.pop(short)
        return sections

    def _put(
        self, into: dict[str, Any], key: str, value: object, line: int | None, section: str = ""
    ) -> None:
        if key in into:
            name = f"{section}.{key}" if section else key
            message = f"{name!r} is in the row already, so no other column can be mapped to it."
            raise DatasetError(message, path=self._label, line=line)
        into[key] = value

    def _refuse_doubles(self) -> None:
        seen: dict[tuple[str, str | None], str] = {}
        for source, target in self.targets.items():
            other = seen.setdefault(target, source)
            if other != source:
                raise DatasetError(f"columns= maps both {other!r} and {source!r} to the same target.")


def suggestion(names: Iterable[str], *, missing_input: bool = True) -> str:
    """Say which `columns=` would probably help for a table with these column names."""
    columns = [str(name) for name in names]
    guess = guess_columns(columns)
    listed = ", ".join(map(repr, columns)) or "none"
    if missing_input and "input" not in guess.values():
        return f"It has: {listed}. Say which one is the input with columns={{'NAME': 'input'}}."
    flags = " ".join(f"--columns {source}={target}" for source, target in guess.items())
    return f"It has: {listed}. Pass columns={guess!r} ({flags})."


def guess_columns(names: Iterable[str]) -> dict[str, str]:
    """Guess what columns with commonly used names mean."""
    by_alias: dict[str, str] = {}
    for name in names:
        by_alias.setdefault(re.sub(r"[\W_]", "", name).lower(), name)
    guess: dict[str, str] = {}
    for target, aliases in (
        ("input", _INPUT_ALIASES),
        ("expected_output", _EXPECTED_ALIASES),
        ("actual_output", _ACTUAL_ALIASES),
    ):
        source = next((by_alias[a] for a in aliases if a in by_alias and by_alias[a] not in guess), None)
        if source is not None and WIRE_NAMES.get(source) != camel_case(target):
            guess[source] = target
    return guess


def parse_target(source: str, name: str) -> tuple[str, str | None]:
    """Read "metadata.topic" as section and key; the short names are keys of their sections."""
    head, dot, key = name.partition(".")
    wire_name = WIRE_NAMES.get(head)
    if dot and key and wire_name in SECTIONS:
        return wire_name, key
    if dot or wire_name is None:
        raise DatasetError(
            f"columns= maps {source!r} to {name!r}, which is not a target. Targets: {_TARGETS}."
        )
    return _SHORTHANDS.get(wire_name, (wire_name, None))

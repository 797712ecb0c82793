"""Paths of axes: `model.temperature`, `tools[name=docs].top_k`, `agent.params.k`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from dokimos.errors import ConfigurationError
from dokimos.suites._problems import Steps, suggest

_PART: Final = re.compile(r"\.?([^.\[\]=]+)|\[(\d+)\]|\[([^\[\]=]+)=([^\[\]]*)\]")

Selector: TypeAlias = tuple[str, str]
"""The entry of a list whose key has this value."""
Path: TypeAlias = tuple["str | int | Selector", ...]


def parse_path(path: str) -> Path:
    """Read a path. Raises `ValueError` where it is none."""
    parts: list[str | int | Selector] = []
    end = 0
    for found in _PART.finditer(path):
        if found.start() != end or (not parts and path.startswith(".")):
            break
        end = found.end()
        if found[1] is not None:
            parts.append(found[1].strip())
        else:
            parts.append(int(found[2]) if found[2] is not None else (found[3].strip(), found[4].strip()))
    if end != len(path) or not parts or not isinstance(parts[0], str):
        raise ValueError("a path is written like model.temperature or tools[name=docs].top_k.")
    return tuple(parts)


def resolve_path(value: Any, path: str) -> Steps:
    """Return the keys and indices that lead to a path in a suite; its last key may be missing there.

    Raises:
        ConfigurationError: where the path leads nowhere.
    """
    steps: Steps = ()
    parts = parse_path(path)
    for index, part in enumerate(parts):
        step = _step(value, part, path)
        steps = (*steps, step)
        is_last = index == len(parts) - 1
        if isinstance(value, Mapping) and step not in value:
            if is_last:
                return steps
            raise ConfigurationError(
                f"the path {path!r} leads nowhere: there is no {step!r}.{suggest(step, value)}"
            )
        value = value[step]
    return steps


def _step(value: object, part: str | int | Selector, path: str) -> str | int:
    if isinstance(part, str):
        if not isinstance(value, Mapping):
            raise ConfigurationError(
                f"the path {path!r} leads nowhere: what is before {part!r} is not a map."
            )
        return part
    if not isinstance(value, list):
        raise ConfigurationError(
            f"the path {path!r} leads nowhere: [...] selects from a list, and there is none."
        )
    if isinstance(part, int):
        if part >= len(value):
            raise ConfigurationError(f"the path {path!r} leads nowhere: the list has {len(value)} entries.")
        return part
    key, expected = part
    matches = [
        n for n, entry in enumerate(value) if isinstance(entry, Mapping) and str(entry.get(key)) == expected
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ConfigurationError(
            f"the path {path!r} is ambiguous: {len(matches)} entries have {key}={expected}."
        )
    values = [str(entry[key]) for entry in value if isinstance(entry, Mapping) and key in entry]
    raise ConfigurationError(
        f"the path {path!r} leads nowhere: no entry has {key}={expected}.{suggest(expected, values)}"
    )


def get_value(value: object, steps: Steps) -> Any:
    """Return what stands somewhere, None where nothing does."""
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def replace_values(value: object, changes: Mapping[Steps, Any]) -> Any:
    """Return a suite with values replaced; the suite itself stays as it is."""
    here = changes.get(())
    if () in changes:
        return here
    below: dict[str | int, dict[Steps, Any]] = {}
    for steps, new in changes.items():
        below.setdefault(steps[0], {})[steps[1:]] = new
    if isinstance(value, list):
        return [replace_values(entry, below[n]) if n in below else entry for n, entry in enumerate(value)]
    copy = dict(value) if isinstance(value, Mapping) else {}
    for step, inner in below.items():
        copy[step] = replace_values(copy.get(step), inner)
    return copy

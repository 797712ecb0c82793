"""What is written on the command line, read: evaluators, filters, wanted scores."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dokimos._core.example import Example
from dokimos._core.jsonable import text_form
from dokimos._core.proportions import parse_proportion
from dokimos._core.yaml_scalars import load_yaml
from dokimos.errors import ConfigurationError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._yaml_text import restore_written_text
from dokimos.evaluators.registry import build

_SHARD: Final = re.compile(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*")
# Only before the next `key=`, so that a value may contain commas.
_NEXT_PARAMETER: Final = re.compile(r",(?=\s*[A-Za-z_]\w*=)")


def build_evaluators(specs: Sequence[str]) -> list[Evaluator]:
    """Build the evaluators of `-e` options. Raises `ConfigurationError` naming the option."""
    return [build_evaluator(spec) for spec in specs]


def build_evaluator(spec: str, defaults: Mapping[str, Any] | None = None) -> Evaluator:
    """Build `name`, `name:key=value,key=value` (YAML scalars) or `{"type": "name", "key": value}`.

    The defaults are used for parameters that the spec does not give.
    """
    if spec.lstrip().startswith("{"):
        name, params = _json_spec(spec)
    else:
        name, _, rest = spec.partition(":")
        params = _parameters(spec, name.strip(), rest)
    return build(name.strip(), {**(defaults or {}), **params}, where=f"-e {spec}")


def _json_spec(spec: str) -> tuple[str, dict[str, Any]]:
    try:
        params = json.loads(spec)
    except ValueError as error:
        raise ConfigurationError(f"-e {spec}: not JSON: {error}") from None
    name = params.pop("type", None)
    if not isinstance(name, str):
        raise ConfigurationError(f'-e {spec}: say which evaluator it is, as in {{"type": "regex", ...}}.')
    return name, params


def _parameters(spec: str, name: str, rest: str) -> dict[str, Any]:
    if not rest.strip():
        return {}
    written = {}
    for part in _NEXT_PARAMETER.split(rest):
        key, equals, value = part.partition("=")
        if not equals or not key.strip().isidentifier():
            raise ConfigurationError(
                f"-e {spec}: {part!r} is not key=value; use -e '{{json}}' for other values."
            )
        written[key.strip()] = value
    # YAML, as in suites: 0.9 is a number, true a switch and [a, b] a list.
    params = {key: _yaml_value(value) for key, value in written.items()}
    try:
        return restore_written_text(name, params, lambda key: written[key].strip())
    except ConfigurationError as error:
        raise ConfigurationError(f"-e {spec}: {error}") from None


def _yaml_value(text: str) -> Any:
    """Read a YAML value; text that is no YAML, such as a pattern that starts with `[`, stays as it is."""
    import yaml

    if not text.strip():
        return ""
    try:
        return load_yaml(text)
    except (yaml.YAMLError, ValueError):
        return text


def example_filter(specs: Sequence[str]) -> Callable[[Example], bool]:
    """Return a test for all of `key=value` (a metadata value, or one of a list) and `id:PATTERN`."""
    tests = [_one_filter(spec) for spec in specs]
    return lambda example: all(test(example) for test in tests)


def _one_filter(spec: str) -> Callable[[Example], bool]:
    if spec.startswith("id:"):
        pattern = spec[3:]
        return lambda example: example.id is not None and fnmatch.fnmatchcase(example.id, pattern)
    key, equals, expected = spec.partition("=")
    if not equals or not key:
        raise ConfigurationError(f"--filter {spec!r} must be key=value (a metadata key) or id:PATTERN.")

    def matches(example: Example) -> bool:
        value = example.metadata.get(key)
        values = value if isinstance(value, list | tuple) else [value]
        return any(text_form(v) == expected for v in values)

    return matches


def parse_columns(specs: Sequence[str]) -> dict[str, str] | None:
    """Read `question=input`; None where nothing was given."""
    columns: dict[str, str] = {}
    for spec in specs:
        source, equals, target = spec.rpartition("=")
        if not equals or not source or not target:
            raise ConfigurationError(f"--columns {spec!r} must be FROM=TO, such as question=input.")
        if columns.setdefault(source, target) != target:
            raise ConfigurationError(f"--columns maps {source!r} to both {columns[source]} and {target}.")
    return columns or None


def parse_error_limit(text: str, option: str) -> int | float:
    """Read a number of items, `0.2` or `20%`."""
    try:
        number = int(text)
    except ValueError:
        pass
    else:
        if number >= 0:
            return number
    share = parse_proportion(text)
    if share is None:
        raise ConfigurationError(f"{option} {text!r} must be a number of items, or a share: 0.2 or 20%.")
    return share


def parse_shard(text: str) -> tuple[int, int]:
    """Read `1/4`."""
    match = _SHARD.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ConfigurationError(f"--shard {text!r} must be I/N with I from 1 to N, such as 1/4.")
    return int(match[1]), int(match[2])

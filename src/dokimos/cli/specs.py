"""What is written on the command line, read: evaluators, filters, wanted scores."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from dokimos.core.example import Example
from dokimos.core.jsonable import text_form
from dokimos.core.results import ExperimentResult
from dokimos.errors import ConfigurationError
from dokimos.evaluators.base import Evaluator
from dokimos.evaluators.registry import build

_NEXT_PARAMETER: Final = re.compile(r",(?=\s*[A-Za-z_]\w*=)")


def build_evaluators(specs: Sequence[str]) -> list[Evaluator]:
    """Build the evaluators of `-e` options. Raises `ConfigurationError` naming the option."""
    return [build_evaluator(spec) for spec in specs]


def build_evaluator(spec: str, defaults: Mapping[str, Any] | None = None) -> Evaluator:
    """Build `name`, `name:key=value,key=value` (YAML scalars) or `{"type": "name", "key": value}`.

    The defaults are parameters that stand in for those that the spec does not give.
    """
    if spec.lstrip().startswith("{"):
        name, params = _json_spec(spec)
    else:
        name, _, rest = spec.partition(":")
        params = _parameters(spec, rest)
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


def _parameters(spec: str, rest: str) -> dict[str, Any]:
    if not rest.strip():
        return {}
    params = {}
    for part in _NEXT_PARAMETER.split(rest):
        key, equals, value = part.partition("=")
        if not equals or not key.strip().isidentifier():
            raise ConfigurationError(
                f"-e {spec}: {part!r} is not key=value; use -e '{{json}}' for other values."
            )
        params[key.strip()] = _yaml_value(value)
    return params


def _yaml_value(text: str) -> Any:
    """Read a YAML value; text that is no YAML, such as a pattern that starts with `[`, stays as it is."""
    import yaml

    if not text.strip():
        return ""
    try:
        return yaml.load(text, _scalar_loader())
    except yaml.YAMLError:
        return text


@cache
def _scalar_loader() -> Any:
    """YAML 1.2's scalars: only true and false are bools, and dates stay text."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    dropped = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")
    Loader.yaml_implicit_resolvers = {
        first: [entry for entry in resolvers if entry[0] not in dropped]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver(dropped[0], re.compile(r"true|True|TRUE|false|False|FALSE"), list("tTfF"))
    return Loader


def example_filter(specs: Sequence[str]) -> Callable[[Example], bool]:
    """Return a test for all of `key=value` (a metadata value, or one of a list) and `id:PATTERN`."""
    tests = [_one_filter(spec) for spec in specs]
    return lambda example: all(test(example) for test in tests)


def _one_filter(spec: str) -> Callable[[Example], bool]:
    if spec.startswith("id:"):
        pattern = spec[3:]
        return lambda example: example.id is not None and fnmatch.fnmatchcase(example.id, pattern)
    key, equals, wanted = spec.partition("=")
    if not equals or not key:
        raise ConfigurationError(f"--filter {spec!r} must be key=value (a metadata key) or id:PATTERN.")

    def matches(example: Example) -> bool:
        value = example.metadata.get(key)
        values = value if isinstance(value, list | tuple) else [value]
        return any(text_form(v) == wanted for v in values)

    return matches


@dataclass(frozen=True, slots=True)
class Wanted:
    """What `--fail-under` asks for: a pass rate, or the mean score of an evaluator."""

    level: float
    evaluator: str | None = None

    def __str__(self) -> str:
        return f"{self.level * 100:g} %" if self.evaluator is None else f"{self.evaluator} {self.level:g}"

    def check_name(self, names: Sequence[str]) -> None:
        """Raise `ConfigurationError` where the evaluator is none of `names`."""
        if self.evaluator is not None and self.evaluator not in names:
            known = ", ".join(names)
            raise ConfigurationError(
                f"--fail-under: there is no evaluator {self.evaluator!r}; there are: {known}."
            )

    def miss(self, result: ExperimentResult) -> str | None:
        """Say how the result falls short, None where it does not.

        Raises:
            ConfigurationError: when there is nothing to compare with.
        """
        if self.evaluator is None:
            rate = result.pass_rate
            if rate is None:
                raise ConfigurationError(
                    "--fail-under: nothing was judged, so there is no pass rate to compare."
                )
            if rate >= self.level:
                return None
            return f"pass rate {rate:.1%} is below {self.level:.1%}".replace("%", " %")
        return self._evaluator_miss(result, self.evaluator)

    def _evaluator_miss(self, result: ExperimentResult, name: str) -> str | None:
        self.check_name(result.evaluator_names)
        mean = result.average_score(name)
        if mean is None:
            raise ConfigurationError(
                f"--fail-under: {name!r} scored nothing, so there is no mean to compare."
            )
        lower = any(info.name == name and info.lower_is_better for info in result.evaluators)
        if mean <= self.level if lower else mean >= self.level:
            return None
        return f"{name} {mean:.4f} is {'above' if lower else 'below'} {self.level:g}"


def parse_wanted(specs: Sequence[str]) -> list[Wanted]:
    """Read `0.9`, `90%` and `Name=0.8`."""
    return [_one_wanted(spec) for spec in specs]


def _one_wanted(spec: str) -> Wanted:
    name, equals, level = spec.rpartition("=")
    text = level.strip()
    try:
        number = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ConfigurationError(
            f'--fail-under {spec!r} must be a share such as 0.9 or 90%, or "Evaluator=0.8".'
        )
    return Wanted(number, name.strip() if equals else None)

"""What promptfoo makes of a reply before assertions look at it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dokimos._core.plain_number import plain_number
from dokimos.errors import EvaluationError
from dokimos.importers._promptfoo.javascript import transform_by_javascript
from dokimos.suites._python_references import load_callable

Transform = Callable[[Any, Mapping[str, Any]], Any]
FILE: Final = "file://"
_PYTHON: Final = re.compile(r"(.*?\.py)(?::(\w+))?", re.DOTALL)


class ReplyTransforms:
    """The transforms of an assertion, one after the other.

    Args:
        programs: JavaScript expressions, `file://name.js` or `file://name.py`, with `:function` behind it.
        folder: What the names of files are relative to.
        reads_json: Whether a reply that is JSON is given as what it says, as of a model with a
            `response_format`.
    """

    def __init__(self, programs: Sequence[str], folder: Path, *, reads_json: bool = False) -> None:
        self._transforms = [_load(program, folder) for program in programs]
        self._reads_json = reads_json

    def apply(self, reply: str, context: Mapping[str, Any]) -> Any:
        """Return what assertions look at.

        Raises:
            EvaluationError: A transform fails, or returns nothing.
        """
        output = _read_json(reply) if self._reads_json else reply
        for transform in self._transforms:
            output = transform(output, context)
        return output


def transform_variables(program: str, variables: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """Return the variables that a program makes of those of a test.

    Raises:
        EvaluationError: The program fails, or returns something else than a map.
        ConfigurationError: Its file cannot be loaded.
    """
    made = _load(program, folder, "vars")(dict(variables), {})
    if not isinstance(made, Mapping):
        raise EvaluationError(f"The transform {program!r:.80} returned {made!r:.60}, not a map.")
    return {str(name): value for name, value in made.items()}


def _load(program: str, folder: Path, argument: str = "output") -> Transform:
    found = _PYTHON.fullmatch(program.removeprefix(FILE)) if program.startswith(FILE) else None
    if found is None:
        return lambda given, context: transform_by_javascript(
            program, folder, {argument: given, "context": dict(context)}
        )
    function = load_callable(f"{found[1]}:{found[2] or 'get_transform'}", folder)

    def transform(output: Any, context: Mapping[str, Any]) -> Any:
        try:
            transformed = function(output, context)
        except Exception as error:  # the program is the user's own
            raise EvaluationError(f"The transform {program} failed: {error!r:.300}") from error
        if transformed is None:
            raise EvaluationError(f"The transform {program} returned nothing.")
        return transformed

    return transform


def output_text(output: object) -> str:
    """Return an output as promptfoo compares it with texts: structures as JSON without spaces."""
    if isinstance(output, str):
        return output
    number = plain_number(output)
    if isinstance(number, float) and number.is_integer():
        output = int(number)  # as JavaScript writes 2.0
    return json.dumps(output, ensure_ascii=False, separators=(",", ":"))


def check_value(kind: str, value: Any) -> Callable[[Any], bool]:
    """Return a check of an output, for the assertions that compare it with a value, such as `contains`."""
    if kind == "equals":
        return lambda output: _equals(output, value)
    if kind == "regex":
        pattern = re.compile(str(value))
        return lambda output: pattern.search(output_text(output)) is not None
    if kind == "starts-with":
        return lambda output: output_text(output).startswith(str(value))
    values = [str(each) for each in value] if isinstance(value, list) else [str(value)]
    join = all if kind.endswith("-all") else any
    if kind.startswith("i"):
        values = [each.lower() for each in values]
        return lambda output: join(each in output_text(output).lower() for each in values)
    return lambda output: join(each in output_text(output) for each in values)


def _equals(output: Any, value: Any) -> bool:
    if not isinstance(value, dict | list):
        return output_text(output) == output_text(value)
    found = _read_json(output) if isinstance(output, str) else output
    return type(found) is type(value) and bool(found == value)


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text

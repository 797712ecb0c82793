"""Assertions and transforms of promptfoo in JavaScript, run by Node."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from dokimos._core.jsonable import jsonable
from dokimos.errors import EvaluationError

_SECONDS: Final = 60
"""How long a program may take."""
_RUNNER: Final = Path(__file__).with_name("run_assertion.mjs")


def run_javascript(program: str, folder: Path, output: object, context: Mapping[str, Any]) -> Any:
    """Return what a program makes of an output: a boolean, a number, or an object as a map.

    Args:
        program: An expression, lines with a `return`, or `file://name.js`, with `:function` where the file
            exports several.
        folder: Where the program runs, and what the name of a file is relative to.
        output: Given to the program as `output`.
        context: Given to it as `context`.

    Raises:
        EvaluationError: There is no Node, or the program fails, takes longer than a minute or returns
            something else.
    """
    return _run(program, folder, {"output": output, "context": dict(context)}, what="assertion")


def transform_by_javascript(program: str, folder: Path, arguments: Mapping[str, Any]) -> Any:
    """Return what a program makes of a reply, which may be any value of JSON but null.

    Args:
        program: As of `run_javascript`; an expression may also be a function.
        folder: Where the program runs, and what the name of a file is relative to.
        arguments: What the program is given, by the names that it has for them.

    Raises:
        EvaluationError: There is no Node, or the program fails, takes longer than a minute or returns
            nothing.
    """
    return _run(program, folder, arguments, what="transform")


def _run(program: str, folder: Path, arguments: Mapping[str, Any], *, what: str) -> Any:
    node = shutil.which("node")
    if node is None:
        raise EvaluationError(
            f"The {what} is a program in JavaScript, and there is no Node to run it: install Node.js, so "
            "that 'node' is on the PATH."
        )
    mark = secrets.token_hex(16)  # so that nothing that the program prints is taken for its result
    request = {
        "program": program, "arguments": dict(arguments), "isTransform": what == "transform", "mark": mark,
    }  # fmt: skip
    try:
        ended = subprocess.run(
            [node, str(_RUNNER)],
            input=json.dumps(jsonable(request), allow_nan=False),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            cwd=folder,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EvaluationError(f"The JavaScript {what} took longer than {_SECONDS} seconds.") from None
    except OSError as error:
        raise EvaluationError(f"The JavaScript {what} could not be started: {error}") from None
    _, found, answer = ended.stdout.rpartition(mark)
    if not found:
        lines = ended.stderr.strip().splitlines()[-1:] or [f"it ended with exit code {ended.returncode}"]
        raise EvaluationError(f"The JavaScript {what} failed: {lines[0]:.300}")
    try:
        result = json.loads(answer)
        failure, value = result.get("error"), result.get("value")
    except (ValueError, AttributeError, RecursionError) as error:
        raise EvaluationError(f"The result of the JavaScript {what} cannot be read: {error}") from None
    if failure is not None or value is None:
        raise EvaluationError(f"The JavaScript {what} failed: {failure or 'it has no result'!s:.300}")
    return value

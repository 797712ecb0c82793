"""What converted suites call: the programs and providers of promptfoo, and a look for JSON."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dokimos._core.plain_number import plain_number
from dokimos.errors import ConfigurationError, EvaluationError
from dokimos.importers._promptfoo.files import folder_of_caller
from dokimos.importers._promptfoo.javascript import run_javascript
from dokimos.importers._promptfoo.reply_transforms import ReplyTransforms, check_value, output_text
from dokimos.suites._graders import GraderContext, GraderResult
from dokimos.suites._python_references import load_callable

Grader = Callable[[GraderContext], GraderResult]
_FILE: Final = "file://"
_REFERENCE: Final = re.compile(r"(.*?\.py)(?::(\w+))?", re.DOTALL)


def python_assertion(
    program: str,
    *,
    config: object = None,
    threshold: float | None = None,
    negate: bool = False,
    transforms: Sequence[str] = (),
    reads_json: bool = False,
) -> Grader:
    """Return a grader that runs a Python assertion: an expression, lines of code, or `file://name.py:function`.

    It looks at what the transforms make of a reply (see `value_assertion`).
    """
    folder = folder_of_caller()
    changes = ReplyTransforms(transforms, folder, reads_json=reads_json)
    check = (
        _from_file(program, folder, "get_assert") if program.strip().startswith(_FILE) else _inline(program)
    )

    def grade(ctx: GraderContext) -> GraderResult:
        context = _context(ctx, config)
        outcome = check(changes.apply(ctx.agent_response, context), context)
        return _to_grader_result(outcome, threshold, negate=negate)

    return grade


def javascript_assertion(
    program: str,
    *,
    config: object = None,
    threshold: float | None = None,
    negate: bool = False,
    transforms: Sequence[str] = (),
    reads_json: bool = False,
) -> Grader:
    """Return a grader that runs a JavaScript assertion by Node: an expression, lines of code, or `file://name.js`.

    A reply is graded with an error where there is no Node, and where the program fails. It looks at what the
    transforms make of a reply (see `value_assertion`).
    """
    folder = folder_of_caller()
    changes = ReplyTransforms(transforms, folder, reads_json=reads_json)

    def grade(ctx: GraderContext) -> GraderResult:
        context = _context(ctx, config)
        outcome = run_javascript(program, folder, changes.apply(ctx.agent_response, context), context)
        return _to_grader_result(outcome, threshold, negate=negate)

    return grade


def value_assertion(
    kind: str, value: Any, *, negate: bool = False, transforms: Sequence[str] = (), reads_json: bool = False
) -> Grader:
    """Return a grader that compares what transforms make of a reply with a value.

    Args:
        kind: The assertion: `equals`, `contains` and its other forms, `regex` or `starts-with`.
        value: What the output is compared with.
        negate: Whether it must not be so.
        transforms: Programs that are applied one after the other: JavaScript expressions of `output` and
            `context`, `file://name.js` or `file://name.py`.
        reads_json: Whether a reply that is JSON is given to them as what it says.
    """
    changes = ReplyTransforms(transforms, folder_of_caller(), reads_json=reads_json)
    check = check_value(kind, value)

    def grade(ctx: GraderContext) -> GraderResult:
        output = changes.apply(ctx.agent_response, _context(ctx, None))
        passed = check(output) is not negate
        reason = (
            None if passed else f"not {'not ' * negate}{kind} {value!r:.100}: {output_text(output)!r:.200}"
        )
        return GraderResult(float(passed), passed=passed, reason=reason)

    return grade


def json_assertion(
    schema: Mapping[str, Any],
    *,
    whole: bool = False,
    negate: bool = False,
    transforms: Sequence[str] = (),
    reads_json: bool = False,
) -> Grader:
    """Return a grader that looks for JSON, valid under a schema, in a reply or as the whole of it.

    It looks at what the transforms make of a reply (see `value_assertion`).
    """
    changes = ReplyTransforms(transforms, folder_of_caller(), reads_json=reads_json)
    from dokimos.evaluators._json_schema import compile_schema, schema_text

    validator = compile_schema(schema_text(dict(schema)))

    def grade(ctx: GraderContext) -> GraderResult:
        output = changes.apply(ctx.agent_response, _context(ctx, None))
        found = _documents(output, whole=whole) if isinstance(output, str) else [output]
        fits = any(validator.is_valid(document) for document in found)
        what = (
            "holds JSON that fits" if fits else "holds JSON that does not fit" if found else "holds no JSON"
        )
        return GraderResult(float(fits is not negate), passed=fits is not negate, reason=f"The reply {what}.")

    return grade


def python_provider(program: str, *, config: Mapping[str, Any] | None = None) -> Callable[[str], Any]:
    """Return an application that asks a Python provider: `name.py`, or `name.py:function`."""
    folder = folder_of_caller()
    call = _from_file(program, folder, "call_api")
    options = {"config": dict(config or {})}

    async def answer(input: str) -> Any:
        if inspect.iscoroutinefunction(call):
            provider_reply = await call(input, options, {"vars": {}})
        else:
            # In a thread: a provider that waits for its model would hold up all other cases.
            provider_reply = await asyncio.to_thread(call, input, options, {"vars": {}})
        return _reply(provider_reply)

    return answer


def _context(ctx: GraderContext, config: object) -> dict[str, Any]:
    """Return what promptfoo tells a program about the test."""
    variables = ctx.turn_config.get("vars") or {}
    return {"prompt": ctx.turn_input, "vars": variables, "test": {"vars": variables}, "config": config or {}}


def _reply(provider_reply: object) -> Any:
    if not isinstance(provider_reply, Mapping):
        return provider_reply
    if provider_reply.get("error"):
        raise EvaluationError(str(provider_reply["error"]))
    usage = provider_reply.get("tokenUsage") or {}
    measured = {
        "tokens_in": usage.get("prompt"),
        "tokens_out": usage.get("completion"),
        "cost_usd": provider_reply.get("cost"),
    }
    metrics = {name: value for name, value in measured.items() if value is not None}
    return {"output": provider_reply.get("output"), **({"metrics": metrics} if metrics else {})}


def _inline(program: str) -> Callable[[Any, Any], Any]:
    """Return a function of a program that is an expression, or lines with a `return`."""
    code = textwrap.dedent(program).strip()
    body = code if "\n" in code or code.startswith("return ") else f"return {code}"
    source = f"def check(output, context):\n{textwrap.indent(body, '    ')}\n"
    namespace: dict[str, Any] = {name: __import__(name) for name in ("json", "math", "re")}
    try:
        # The user's own program, as promptfoo runs it; it is in the configuration that was converted.
        exec(compile(source, "<assertion>", "exec"), namespace)
    except SyntaxError as error:
        raise ConfigurationError(f"the Python assertion {code!r:.80} is not valid: {error}.") from None
    check: Callable[[str, Any], Any] = namespace["check"]
    return check


def _from_file(reference: str, folder: Path, usual: str) -> Callable[..., Any]:
    found = _REFERENCE.fullmatch(reference.strip().removeprefix(_FILE))
    name, function = (reference, None) if found is None else (found[1], found[2])
    loaded: Callable[..., Any] = load_callable(f"{name}:{function or usual}", folder)
    return loaded


def _to_grader_result(outcome: object, threshold: float | None, *, negate: bool) -> GraderResult:
    reason = None
    number = plain_number(outcome)
    if isinstance(outcome, Mapping):
        passed = outcome.get("pass", outcome.get("pass_"))
        score = outcome.get("score", float(bool(passed)))
        reason = outcome.get("reason")
    elif number is not None:
        passed, score = (number if isinstance(number, bool) else None), float(number)
    else:
        raise EvaluationError(f"The assertion gave {type(outcome).__name__}, not a bool, a number or a map.")
    if plain_number(score) is None:
        raise EvaluationError(f"The assertion gave the score {score!r:.60}, which is not a number.")
    if passed is None or threshold is not None:
        # As in promptfoo: a bare score passes above 0, and a threshold holds beside a `pass` as well.
        passed = (passed is not False) and (score >= threshold if threshold is not None else score > 0)
    return GraderResult(min(max(float(score), 0.0), 1.0), passed=bool(passed) is not negate, reason=reason)


def _documents(text: str, *, whole: bool) -> list[Any]:
    """Return the JSON documents in a text: all of it, or every object and list that starts somewhere."""
    if whole:
        try:
            return [json.loads(text)]
        except ValueError:
            return []
    decoder, found, position = json.JSONDecoder(), [], 0
    while position < len(text):
        if text[position] in "{[":
            try:
                document, end = decoder.raw_decode(text, position)
            except ValueError:
                position += 1
            else:
                found.append(document)
                position = end
        else:
            position += 1
    return found

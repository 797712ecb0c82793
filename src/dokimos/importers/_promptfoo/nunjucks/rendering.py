"""A template evaluated with its variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from dokimos.importers._promptfoo.nunjucks.filters import apply_filter
from dokimos.importers._promptfoo.nunjucks.filters_of_lists import run_test
from dokimos.importers._promptfoo.nunjucks.members import find_member
from dokimos.importers._promptfoo.nunjucks.operators import OBJECT_MEMBERS, apply, floor
from dokimos.importers._promptfoo.nunjucks.parser import parse
from dokimos.importers._promptfoo.nunjucks.syntax import (
    Arguments,
    Binary,
    Call,
    Capture,
    Choice,
    Constant,
    Data,
    Expression,
    Filter,
    For,
    If,
    ListOf,
    Macro,
    MapOf,
    Member,
    Name,
    Output,
    Set,
    Statement,
    Switch,
    Test,
    Unary,
)
from dokimos.importers._promptfoo.nunjucks.values import (
    MOST_CHARACTERS,
    UNDEFINED,
    Environment,
    EnvironmentText,
    Function,
    SafeText,
    TemplateRefused,
    Text,
    Value,
    Variable,
    equals,
    from_data,
    is_nothing,
    is_true,
    order_keys,
    refuse_environment,
    to_number,
    to_written,
    units,
)

_MOST_STEPS: Final = 300_000
_MOST_IN_RANGE: Final = 100_000
_TEMPLATE: Final = re.compile(r"\{\{|\{%|\{#")
_ENVIRONMENT: Final = re.compile(r"\{\{\s*env\.[A-Za-z_]\w*\s*\}\}", re.ASCII)
_LINE_END: Final = re.compile("[\n\r\u2028\u2029]")
_RAW: Final = re.compile(r"\{%\s*(?:end)?raw\s*%\}")

Body = tuple[Statement, ...]


def is_template(text: str) -> bool:
    """Whether a text has something that Nunjucks would read."""
    return _TEMPLATE.search(text) is not None


def is_unfinished(text: str) -> bool:
    """Whether a text has a tag that does not end on its line; promptfoo leaves all of it as it is."""
    if _RAW.search(text):
        return False
    return any(
        opening in line and closing not in line[line.rfind(opening) + 2 :]
        for line in _LINE_END.split(text)
        for opening, closing in (("{%", "%"), ("{{", "}"), ("{#", "#"))
    )


def names_environment_only(text: str) -> bool:
    """Whether a text is a template, and has only variables of the environment in it."""
    return is_template(text) and not is_template(_ENVIRONMENT.sub("", text))


def render_nunjucks(
    text: str,
    variables: Mapping[str, Any],
    note_empty: Callable[[str], None] = lambda tag: None,
    *,
    nested: bool = False,
) -> Text:
    """Return a template rendered with variables.

    Args:
        text: The template.
        variables: Values as YAML and JSON have them; in texts, variables of the environment are filled in.
        note_empty: Is called with each tag that names a value that is not there.
        nested: Whether variables that are templates are rendered before, as promptfoo does for prompts.

    Raises:
        TemplateRefused: It is not a template, or uses what is not rendered exactly as Nunjucks does.
    """
    try:
        context = Context(variables, nested=nested)
        return _Renderer(context, note_empty).render(parse(text))
    except TemplateRefused:
        raise
    except RecursionError:
        raise TemplateRefused("it is nested too deeply") from None
    except Exception as error:  # also MemoryError: one template must not end the import of all others
        raise TemplateRefused(f"{type(error).__name__}: {error}") from None


class Context:
    """The variables of a template, and what it sets at its top."""

    def __init__(self, variables: Mapping[str, Any], *, nested: bool) -> None:
        self._variables = variables
        self._nested = nested
        self._values: dict[str, Value] = {}
        self._globals: dict[str, Value] = {"range": Function(_range), "env": Environment()}

    def find(self, name: str) -> Value:
        """Return a variable, UNDEFINED where there is none."""
        if name in self._values:
            return self._values[name]
        if name not in self._variables:
            if name in OBJECT_MEMBERS or name in ("cycler", "joiner"):
                raise TemplateRefused(f"it asks for {name!r}, which is not rendered")
            return self._globals.get(name, UNDEFINED)
        value = self._variables[name]
        if isinstance(value, str) and (
            names_environment_only(value)
            or (self._nested and is_template(value) and not is_unfinished(value))
        ):
            context = Context({} if names_environment_only(value) else self._variables, nested=False)
            value = _Renderer(context, lambda tag: None).render(parse(value))
        self._values[name] = from_data(value)
        return self._values[name]

    def set(self, name: str, value: Value) -> None:
        """Set a variable."""
        self._values[name] = value


class _Frame:
    """The variables of a loop, of a macro or of the whole template."""

    def __init__(self, parent: _Frame | None, *, is_top: bool = False) -> None:
        self.parent = parent
        self.is_top = is_top
        self.values: dict[str, Value] = {}

    def owner(self, name: str) -> _Frame | None:
        """Return the frame, this one or one around it, that has a variable."""
        return self if name in self.values else self.parent and self.parent.owner(name)


class _Renderer:
    def __init__(self, context: Context, note_empty: Callable[[str], None]) -> None:
        self._context = context
        self._note_empty = note_empty
        self._steps = 0
        self._size = 0

    def render(self, body: Body) -> Text:
        return self._write(body, _Frame(None, is_top=True))

    def _write(self, body: Body, frame: _Frame) -> Text:
        """Return what statements write: a text, or parts of one around variables of the environment."""
        parts: list[str | Variable] = []
        self._run(body, frame, parts)
        if any(isinstance(part, Variable) for part in parts):
            return EnvironmentText(tuple(parts))
        return "".join(str(part) for part in parts)

    def _run(self, body: Body, frame: _Frame, parts: list[str | Variable]) -> None:
        for statement in body:
            self._count()
            match statement:
                case Data(text):
                    self._append(text, parts)
                case Output(value, source):
                    self._output(value, source, frame, parts)
                case If(condition, then, otherwise):
                    self._run(then if is_true(self._value(condition, frame)) else otherwise, frame, parts)
                case For():
                    self._loop(statement, _Frame(frame), parts)
                case Set(names, value):
                    self._set(names, self._value(value, frame), frame)
                case Macro(name):
                    self._context.set(name, self._macro(statement))
                case Switch():
                    self._switch(statement, frame, parts)

    def _count(self, value: Value = None) -> None:
        """Count a step, of which a value that is large takes more."""
        self._steps += 1 + (len(value) // 50 if isinstance(value, str | list) else 0)
        if self._steps > _MOST_STEPS:
            raise TemplateRefused(f"it takes more than {_MOST_STEPS:,} steps")

    def _append(self, text: Text, parts: list[str | Variable]) -> None:
        new = (text,) if isinstance(text, str) else text.parts
        self._size += sum(len(part) for part in new if isinstance(part, str))
        if self._size > MOST_CHARACTERS:
            raise TemplateRefused(f"it writes more than {MOST_CHARACTERS:,} characters")
        parts.extend(new)

    def _output(self, value: Expression, source: str, frame: _Frame, parts: list[str | Variable]) -> None:
        found = self._value(value, frame)
        if is_nothing(found) and isinstance(value, Name | Member):
            self._note_empty(source)
        self._append(to_written(found), parts)

    def _set(self, names: tuple[str, ...], value: Value, frame: _Frame) -> None:
        for name in names:
            owner = frame.owner(name) or frame
            if not frame.is_top and UNDEFINED in (value, owner.values.get(name)):
                raise TemplateRefused(
                    "it sets a variable in a loop or a macro to, or from, a value that is not there"
                )
            owner.values[name] = value
            if frame.is_top:
                self._context.set(name, value)
            if value is UNDEFINED:
                del owner.values[name]

    def _switch(self, switch: Switch, frame: _Frame, parts: list[str | Variable]) -> None:
        value = self._value(switch.value, frame)
        for index, (condition, body) in enumerate(switch.cases):
            if equals(value, self._value(condition, frame), strict=True):
                # Without a body, a case falls through to the next.
                following = (*(body for _, body in switch.cases[index:]), switch.otherwise)
                self._run(next((one for one in following if one), body), frame, parts)
                return
        self._run(switch.otherwise, frame, parts)

    def _loop(self, loop: For, frame: _Frame, parts: list[str | Variable]) -> None:
        rows = _rows(self._value(loop.values, frame), len(loop.names))
        for index, row in enumerate(rows):
            self._count()
            frame.values.update(zip(loop.names, row, strict=True))
            frame.values["loop"] = _loop_fields(index, len(rows))
            self._run(loop.body, frame, parts)
        if not rows:
            # In what stands for an empty loop, its variables hide those of the same name around it.
            frame.values.update(dict.fromkeys(loop.names, UNDEFINED))
            self._run(loop.otherwise, frame, parts)

    def _macro(self, macro: Macro) -> Function:
        def call(positional: list[Value], named: dict[str, Value]) -> Value:
            frame = _Frame(None)
            given = dict(zip(macro.parameters, positional, strict=False))
            rest = {name: value for name, value in named.items() if name not in given}
            names = [name for name, _ in macro.defaults]
            extra = zip(names, positional[len(macro.parameters) :], strict=False)
            rest |= extra
            for name in macro.parameters:
                frame.values[name] = given[name] if name in given else rest.pop(name, UNDEFINED)
            for name, default in macro.defaults:
                frame.values[name] = rest[name] if name in rest else self._value(default, frame)
                if frame.values[name] is UNDEFINED:
                    raise TemplateRefused("a macro gets a named argument that is not there")
            self._count()
            return SafeText(self._write(macro.body, frame))

        return Function(call)

    def _value(self, expression: Expression, frame: _Frame) -> Value:
        match expression:
            case Constant(value):
                return value
            case Name(name):
                owner = frame.owner(name)
                return self._context.find(name) if owner is None else owner.values[name]
            case Member(target, key):
                return find_member(self._value(target, frame), self._value(key, frame))
            case Binary(operator, left, right):
                return self._binary(operator, left, right, frame)
            case Unary(operator, operand):
                return _unary(operator, self._value(operand, frame))
            case Choice(condition, body, otherwise):
                return self._value(body if is_true(self._value(condition, frame)) else otherwise, frame)
            case ListOf(items):
                return [self._value(item, frame) for item in items]
            case MapOf(entries):
                return order_keys({key: self._value(value, frame) for key, value in entries})
            case Capture(body):
                return self._write(body, frame)
        found = self._call(expression, frame)
        self._count(found)
        return found

    def _call(self, expression: Call | Filter | Test, frame: _Frame) -> Value:
        arguments: Arguments = expression.arguments
        if isinstance(expression, Call):
            function = self._value(expression.target, frame)
            if not isinstance(function, Function):
                raise TemplateRefused("it calls something that is not a function")
            return function.call(*self._arguments(arguments, frame))
        value = self._value(expression.value, frame)
        positional, named = self._arguments(arguments, frame)
        if isinstance(expression, Test):
            return run_test(expression.name, value, *positional)
        return apply_filter(expression.name, value, positional, named)

    def _arguments(self, arguments: Arguments, frame: _Frame) -> tuple[list[Value], dict[str, Value]]:
        positional = [self._value(one, frame) for one in arguments.positional]
        return positional, {name: self._value(one, frame) for name, one in arguments.named}

    def _binary(self, operator: str, left: Expression, right: Expression, frame: _Frame) -> Value:
        one = self._value(left, frame)
        self._count(one)
        if operator in ("&&", "||"):
            return self._value(right, frame) if is_true(one) == (operator == "&&") else one
        return apply(operator, one, self._value(right, frame))


def _unary(operator: str, value: Value) -> Value:
    if operator == "!":
        return not is_true(value)
    number = to_number(value)
    return floor(number) if operator == "floor" else -number if operator == "-" else number


def _rows(value: Value, names: int) -> list[tuple[Value, ...]]:
    """Return what a loop gives its variables in each round."""
    refuse_environment(value)
    if isinstance(value, SafeText | Function):
        raise TemplateRefused("it loops over what a filter made safe, or over a function")
    if names > 1:
        return _rows_of_several(value, names)
    if isinstance(value, dict) and "length" in value:
        raise TemplateRefused("it loops over a map that has a length")
    # Nunjucks goes through a map only by its keys and values.
    entries = units(value) if isinstance(value, str) else value if isinstance(value, list) else ()
    return [(entry,) for entry in entries]


def _rows_of_several(value: Value, names: int) -> list[tuple[Value, ...]]:
    if isinstance(value, list):
        if any(is_nothing(entry) for entry in value):
            raise TemplateRefused("it takes the parts of an entry that is null")
        return [tuple(find_member(entry, float(index)) for index in range(names)) for entry in value]
    if not is_true(value):
        return []
    if not isinstance(value, dict) or names != 2:
        raise TemplateRefused("it loops with several variables over what has not as many")
    return list(value.items())


def _loop_fields(index: int, count: int) -> dict[str, Value]:
    return {
        "index": float(index + 1),
        "index0": float(index),
        "revindex": float(count - index),
        "revindex0": float(count - index - 1),
        "first": index == 0,
        "last": index == count - 1,
        "length": float(count),
    }


def _range(positional: list[Value], named: dict[str, Value]) -> list[Value]:
    if named or not positional or not all(isinstance(one, float) for one in positional[:3]):
        raise TemplateRefused("range gets something that is not a number")
    start, stop = (0.0, positional[0]) if len(positional) == 1 else positional[:2]
    step = positional[2] if len(positional) > 2 and positional[2] else 1.0
    if not (stop - start) / step < _MOST_IN_RANGE:
        raise TemplateRefused(f"range has more than {_MOST_IN_RANGE:,} numbers")
    numbers: list[Value] = []
    while start < stop if step > 0 else start > stop:
        numbers.append(start)
        if start + step == start:
            raise TemplateRefused("range has a step that is too small")
        start += step
    return numbers

"""Templates of Nunjucks, which promptfoo uses, rendered by Jinja2 where both say the same.

The two languages look alike, and differ in what JavaScript and Python make of values: an empty list counts as
true, `null` is written as nothing, `items.length` is a number, `a == b` converts its sides. Where a template
depends on a difference that is not bridged here, it is refused: a suite with a wrong prompt is worse than one
without it.

Source: the documentation of Nunjucks and of Jinja2 on their builtin tags, filters and expressions.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial, wraps
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from dokimos._core.extras import require
from dokimos.errors import MissingExtraError

if TYPE_CHECKING:
    from jinja2 import nodes
    from jinja2.sandbox import SandboxedEnvironment

_TAG: Final = re.compile(r"(\{%.*?%\}|\{\{.*?\}\})", re.DOTALL)
_PART_OF_TAG: Final = re.compile(
    r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|===|!==|\belseif\b|\bnull\b", re.DOTALL
)
_SPELLINGS: Final = {"===": "==", "!==": "!=", "elseif": "elif", "null": "none"}
_INT: Final = re.compile(r"\s*[+-]?\d+")
_FLOAT: Final = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_RAW: Final = re.compile(r"\{%-?\s*(?:raw|verbatim)\b")
_ENV_BEGIN: Final = "\ue0f0"
_ENV_END: Final = "\ue0f1"
_TEXT_FILTERS: Final = (
    "capitalize", "center", "indent", "lower", "replace", "title", "trim", "upper", "wordcount",
)  # fmt: skip
"""Filters of Jinja2 that do with a text what those of Nunjucks do, and something else with other values."""
_OTHER_FILTERS: Final = (
    "abs", "batch", "default", "dictsort", "first", "last", "list", "reject", "rejectattr", "reverse", "safe",
    "select", "selectattr", "slice", "sort", "sum",
)  # fmt: skip
"""Those that do the same with any value."""


class TemplateRefused(Exception):
    """A template that Jinja2 cannot render as Nunjucks does; its text says why."""


def render_nunjucks(text: str, variables: Mapping[str, Any]) -> str:
    """Return a template rendered with variables; `env.NAME` stands as `mark_environment` writes it.

    Raises:
        TemplateRefused: It uses what the two languages do not share, or is not a template at all.
    """
    try:
        environment = _environment()
    except MissingExtraError as error:
        raise TemplateRefused(str(error)) from None
    from jinja2 import TemplateError

    if _RAW.search(text):
        raise TemplateRefused("it has a raw block")
    try:
        tree = environment.parse(_TAG.sub(_translate_tag, text))
        _translate(tree, environment)
        template = environment.from_string(tree)
        return template.render({**_as_script_values(variables), "env": _Environment()})
    except TemplateRefused:
        raise
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
        raise TemplateRefused(f"{type(error).__name__}: {error}") from None


def restore_environment(text: str) -> str:
    """Return a rendered text in which a suite sees variables of the environment, each empty by default."""
    return re.sub(f"{_ENV_BEGIN}(\\w+){_ENV_END}", r"${\1:-}", text)


def _translate_tag(tag: re.Match[str]) -> str:
    def translate(part: re.Match[str]) -> str:
        return _SPELLINGS.get(part[0], part[0])

    return _PART_OF_TAG.sub(translate, tag[0])


@cache
def _environment() -> SandboxedEnvironment:
    require("jinja2", extra="promptfoo")
    from jinja2 import ChainableUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Environment(ImmutableSandboxedEnvironment):
        def getattr(self, obj: Any, attribute: str) -> Any:
            return self._member(obj, attribute)

        def getitem(self, obj: Any, argument: Any) -> Any:
            return self._member(obj, argument)

        def _member(self, obj: Any, name: Any) -> Any:
            found = _find_member(obj, name)
            return self.undefined(obj=obj, name=str(name)) if found is _MISSING else found

    environment = Environment(
        undefined=ChainableUndefined, finalize=write_value, keep_trailing_newline=True, autoescape=False
    )
    environment.filters = {
        **{name: _of_text(environment.filters[name], name) for name in _TEXT_FILTERS},
        **{name: _of_script_values(environment.filters[name]) for name in _OTHER_FILTERS},
        **_FILTERS,
        "_pairs": _iterate_pairs,
        "_values": _iterate_values,
        "_truth": _is_true,
        "_script": _as_script_values,
    }
    environment.tests = {
        name: environment.tests[name]
        for name in ("defined", "undefined", "none", "divisibleby", "even", "odd")
    }
    environment.globals = {
        "range": environment.globals["range"], "_add": _add, "_concat": _concat, "_equals": _equals,
    }  # fmt: skip
    return environment


def _of_text(change: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a filter of Jinja2 that takes nothing but texts."""
    from jinja2 import pass_eval_context

    def filter_text(context: Any, value: Any, *args: Any, **options: Any) -> Any:
        if type(value) is not str:
            raise TemplateRefused(f"its filter {name} gets something that is not a text")
        given = (context,) if hasattr(change, "jinja_pass_arg") else ()
        return change(*given, value, *args, **options)

    return pass_eval_context(filter_text)


def _of_script_values(change: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter of Jinja2 whose lists are those of JavaScript."""

    @wraps(change)  # with what Jinja2 notes at the function of the arguments that it wants
    def filter_values(*args: Any, **options: Any) -> Any:
        return _as_script_values(change(*args, **options))

    return filter_values


def _translate(tree: nodes.Template, environment: SandboxedEnvironment) -> None:
    """Change a template so that its conditions, loops and operators mean what they do in JavaScript."""
    from jinja2 import nodes

    def apply_filter(node: Any, name: str) -> Any:
        return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)

    for loop in tree.find_all(nodes.For):
        loop.iter = apply_filter(loop.iter, "_pairs" if isinstance(loop.target, nodes.Tuple) else "_values")
    conditions: Iterable[Any] = tree.find_all((nodes.If, nodes.CondExpr))
    for condition in conditions:
        condition.test = apply_filter(condition.test, "_truth")
    for negation in tree.find_all(nodes.Not):
        negation.node = apply_filter(negation.node, "_truth")
    for operation in tree.find_all((nodes.And, nodes.Or)):
        operation.left = apply_filter(operation.left, "_script")
    for comparison in tree.find_all(nodes.Compare):
        if len(comparison.ops) > 1:
            raise TemplateRefused("it chains comparisons")
    for node in [tree, *tree.find_all(nodes.Node)]:
        for name, value in node.iter_fields():
            new = [_as_call(each) for each in value] if isinstance(value, list) else _as_call(value)
            setattr(node, name, new)
    tree.set_environment(environment)


def _as_call(node: Any) -> Any:
    """Return a call for an operator whose sides JavaScript converts, anything else as it is."""
    from jinja2 import nodes

    def call(name: str, sides: list[Any]) -> Any:
        return nodes.Call(nodes.Name(name, "load"), sides, [], None, None, lineno=node.lineno)

    if isinstance(node, nodes.Compare) and node.ops[0].op in ("eq", "ne"):
        same = call("_equals", [node.expr, node.ops[0].expr])
        return same if node.ops[0].op == "eq" else nodes.Not(same, lineno=node.lineno)
    if isinstance(node, nodes.Add):
        return call("_add", [node.left, node.right])
    if isinstance(node, nodes.Concat):
        return call("_concat", node.nodes)
    return node


class _ScriptList(list[Any]):
    """A list that counts as true when it is empty, as in JavaScript."""

    def __bool__(self) -> bool:
        return True


class _ScriptMap(dict[str, Any]):
    """A map that counts as true when it is empty, as in JavaScript."""

    def __bool__(self) -> bool:
        return True


class _Environment:
    """The variables of the environment, which have no value before the suite runs."""

    def __bool__(self) -> bool:
        raise TemplateRefused("it asks whether there is an environment")


class _EnvironmentVariable(str):
    """One of them, which can be written and nothing else."""

    __slots__ = ()

    def __bool__(self) -> bool:
        raise TemplateRefused("it decides by a variable of the environment")

    def __eq__(self, other: object) -> bool:
        raise TemplateRefused("it compares a variable of the environment")

    __hash__ = str.__hash__


def _as_script_values(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _ScriptMap({str(key): _as_script_values(entry) for key, entry in value.items()})
    if isinstance(value, list | tuple | Iterator):
        return _ScriptList(map(_as_script_values, value))
    return value


_MISSING: Final = object()


def _find_member(obj: Any, name: Any) -> Any:
    """Return what `obj.name` and `obj[name]` are in JavaScript, as far as templates use it."""
    if isinstance(obj, _Environment):
        return _EnvironmentVariable(f"{_ENV_BEGIN}{name}{_ENV_END}")
    if isinstance(obj, _EnvironmentVariable):
        raise TemplateRefused("it looks into a variable of the environment")
    if isinstance(obj, Mapping):
        return obj.get(str(write_value(name)), _MISSING)
    if isinstance(obj, str | list):
        if name == "length":
            return _length(obj)
        number = int(name) if isinstance(name, str) and name.isdecimal() else name
        if isinstance(number, int) and not isinstance(number, bool):
            return obj[number] if 0 <= number < len(obj) else _MISSING
        method = (_TEXT_METHODS if isinstance(obj, str) else _LIST_METHODS).get(name)
        if method is None:
            raise TemplateRefused(f"it asks a {'text' if isinstance(obj, str) else 'list'} for {name!r}")
        return partial(method, obj)
    loop_part = getattr(obj, str(name), _MISSING) if type(obj).__name__ == "LoopContext" else _MISSING
    return loop_part


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-16-le", "surrogatepass")) // 2  # as JavaScript counts
    return len(value)


def write_value(value: Any) -> Any:
    """Return a value as a template writes it; maps and lists as JSON, as promptfoo puts them into prompts."""
    from jinja2 import Undefined

    if value is None or isinstance(value, Undefined):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _write_number(value)
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    raise TemplateRefused(f"it writes a {type(value).__name__}")


def _write_number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    if 1e-6 <= abs(value) < 1e21:
        return repr(value) if "e" not in repr(value) else f"{value:f}"
    raise TemplateRefused(f"it writes the number {value!r}")


def _is_true(value: Any) -> bool:
    if isinstance(value, float) and math.isnan(value):
        return False
    return True if isinstance(value, list | Mapping) else bool(value)


def _equals(one: Any, other: Any) -> bool:
    """Compare as `==` and `===` do where they agree."""
    from jinja2 import Undefined

    nothing = [value is None or isinstance(value, Undefined) for value in (one, other)]
    if any(nothing):
        return all(nothing)
    for value in (one, other):
        if isinstance(value, list | Mapping):
            raise TemplateRefused("it compares a list or a map")
        if isinstance(value, _EnvironmentVariable):
            raise TemplateRefused("it compares a variable of the environment")
    if _script_type(one) is not _script_type(other):
        # `"1" == 1` holds and `"1" === 1` does not: which one stands there is not known any more.
        raise TemplateRefused(f"it compares {one!r:.40} with {other!r:.40}")
    return bool(one == other)


def _script_type(value: Any) -> type:
    return str if isinstance(value, str) else bool if isinstance(value, bool) else float


def _iterate_pairs(value: Any) -> Any:
    return _ScriptList(value.items()) if isinstance(value, Mapping) else _iterate_values(value)


def _iterate_values(value: Any) -> Any:
    from jinja2 import Undefined

    if value is None or isinstance(value, Undefined | Mapping):
        return ()  # Nunjucks goes through a map only by its keys and values
    return value


def _write_json(value: Any, indent: Any = None) -> str:
    """Write JSON as `JSON.stringify` does."""
    separators = (",", ":") if not indent else (",", ": ")
    return json.dumps(value, ensure_ascii=False, indent=indent or None, separators=separators)


def _round(value: float, precision: int = 0, method: str = "common") -> float:
    factor: float = 10**precision
    how = {"ceil": math.ceil, "floor": math.floor}.get(method, lambda number: math.floor(number + 0.5))
    return how(value * factor) / factor


def _truncate(value: str, length: int = 255, killwords: bool = False, end: str = "...") -> str:
    if len(value) <= length:
        return value
    space = -1 if killwords else value.rfind(" ", 0, length + 1)
    return value[: space if space >= 0 else length] + end


def _escape_markup(value: Any) -> str:
    text = str(write_value(value))
    for sign, name in (("&", "amp"), ('"', "quot"), ("'", "#39"), ("<", "lt"), (">", "gt"), ("`", "#96")):
        text = text.replace(sign, f"&{name};")
    return text


def _join(value: Any, separator: str = "", attribute: str | None = None) -> str:
    if not isinstance(value, list):
        raise TemplateRefused("its filter join gets something that is not a list")
    entries = value if attribute is None else [_find_member(entry, attribute) for entry in value]
    return separator.join("" if entry is _MISSING else str(write_value(entry)) for entry in entries)


def _count(value: Any) -> int:
    from jinja2 import Undefined

    if value is None or isinstance(value, Undefined):
        return 0
    if not isinstance(value, str | list | Mapping):
        raise TemplateRefused(f"it asks a {type(value).__name__} for its length")
    return _length(value)


def _number_in(value: Any, pattern: re.Pattern[str], kind: Callable[[str], Any], default: Any) -> Any:
    """Return the number that a text begins with, as `parseInt` and `parseFloat` do."""
    found = pattern.match(str(write_value(value)))
    return default if found is None else kind(found[0])


def _add(one: Any, other: Any) -> Any:
    if isinstance(one, str) or isinstance(other, str):
        return _concat(one, other)
    if not all(isinstance(value, int | float) for value in (one, other)):
        raise TemplateRefused("it adds what are not numbers")
    return one + other


def _concat(*parts: Any) -> str:
    from jinja2 import Undefined

    if any(part is None or isinstance(part, Undefined | list | Mapping) for part in parts):
        raise TemplateRefused("it joins a text with a value that is not there, a list or a map")
    return "".join(str(write_value(part)) for part in parts)


_FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "dump": _write_json,
    "escape": _escape_markup,
    "float": lambda value, default=None: _number_in(value, _FLOAT, float, default),
    "int": lambda value, default=None: _number_in(value, _INT, int, default),
    "join": _join,
    "length": _count,
    "round": _round,
    "string": lambda value: str(write_value(value)),
    "truncate": _truncate,
    "urlencode": lambda value: quote(str(write_value(value)), safe="!~*'()"),
}


def _split(text: str, separator: str) -> list[str]:
    return _ScriptList(text.split(separator)) if separator else _ScriptList(text)


def _slice(value: Any, start: int = 0, end: int | None = None) -> Any:
    part = value[start:end]
    return _ScriptList(part) if isinstance(part, list) else part


_TEXT_METHODS: Final[dict[str, Callable[..., Any]]] = {
    "endsWith": str.endswith,
    "includes": lambda text, part: part in text,
    "replace": lambda text, old, new: text.replace(old, new, 1),
    "replaceAll": str.replace,
    "slice": _slice,
    "split": _split,
    "startsWith": str.startswith,
    "toLowerCase": str.lower,
    "toUpperCase": str.upper,
    "trim": str.strip,
}
_LIST_METHODS: Final[dict[str, Callable[..., Any]]] = {
    "includes": lambda values, one: any(_equals(value, one) for value in values),
    "join": lambda values, separator=",": _join(values, separator),
    "slice": _slice,
}

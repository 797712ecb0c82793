"""An evaluator's parameters as data: validated, described, and as a JSON Schema."""

from __future__ import annotations

import ast
import contextlib
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from dokimos._core.constraints import describe_requirement
from dokimos._core.jsonable import jsonable
from dokimos._core.score_range import USUAL_RANGE
from dokimos._core.text import quote
from dokimos._core.yaml_scalars import read_boolean
from dokimos.errors import ConfigurationError
from dokimos.evaluators._base import COMMON_FIELDS, Evaluator, default_name_of
from dokimos.evaluators._setting_names import is_required
from dokimos.evaluators.registry import settable_fields

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# Classes are `Any` here where a cache takes them: to a type checker an evaluator class is not hashable.

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterDoc:
    """What there is to know about one parameter."""

    name: str
    type: str
    """As it is written in the code."""
    required: bool
    default: Any
    """As JSON; None where required."""
    description: str
    common: bool
    """Whether every evaluator has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSummary:
    """What a list says about an evaluator."""

    name: str
    """In the registry."""
    class_name: str
    """As `module:Class`."""
    purpose: str
    """One line."""
    parameter_names: tuple[str, ...]
    """The evaluator's own first, then the common ones."""
    requires: tuple[str, ...]
    """The parts of a case that must be there."""
    extra: str | None
    """The optional dependencies that it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorDoc(EvaluatorSummary):
    """What there is to know about an evaluator, for `dokimos evaluators NAME` and the documentation."""

    result_name: str
    """What results are called unless a name is given."""
    details: str
    """The rest of the class's description; empty if the class has only a first line."""
    parameters: tuple[ParameterDoc, ...]
    """In the order of `parameter_names`."""
    looks_for: tuple[str, ...]
    """Further parts that it cannot do without, unless its parameters say otherwise."""
    threshold: float | None
    lower_is_better: bool
    deterministic: bool
    score_range: tuple[float, float]
    """The lowest and the highest score."""
    judge_calls: str
    """How many calls of a judge one case costs, as arithmetic over the words of `CALL_COUNTS`."""
    method_source: str
    """Who defined the method; empty where the class does not say it."""
    example: str
    """The example of the class's description, empty where there is none."""


def summarize(name: str, kind: type[Evaluator]) -> EvaluatorSummary:
    """Describe an evaluator class without its parameters, whose descriptions are read from its source."""
    return EvaluatorSummary(**_summary(name, kind))


def _summary(name: str, kind: type[Evaluator]) -> dict[str, Any]:
    return {
        "name": name,
        "class_name": f"{kind.__module__}:{kind.__qualname__}",
        "purpose": " ".join(description_of(kind).partition("\n\n")[0].split()),
        "parameter_names": tuple(parameter.name for parameter in _parameters(kind)),
        "requires": tuple(kind.requires),
        "extra": kind.extra,
    }


def describe(name: str, kind: type[Evaluator]) -> EvaluatorDoc:
    """Describe an evaluator class that is registered as `name`."""
    parameters = _parameter_docs(kind)
    return EvaluatorDoc(
        **_summary(name, kind),
        result_name=default_name_of(kind),
        details=description_of(kind).partition("\n\n")[2].strip(),
        parameters=parameters,
        looks_for=tuple(kind.looks_for),
        threshold=next(p.default for p in parameters if p.name == "threshold"),
        lower_is_better=bool(kind.lower_is_better),
        deterministic=bool(kind.deterministic),
        score_range=_range_of(kind),
        judge_calls=kind.judge_calls,
        method_source=kind.method_source,
        example=textwrap.dedent(inspect.cleandoc(kind.__doc__ or "").partition("\n\nExample:\n")[2]),
    )


def _range_of(kind: Any) -> tuple[float, float]:
    # A field of this name is the scale of a judge, as `LLMJudge` has it; scores are then in the usual range.
    is_scale = "score_range" in {f.name for f in fields(kind)}
    return USUAL_RANGE if is_scale else kind.score_range


def description_of(kind: type[Evaluator]) -> str:
    """Return the docstring of an evaluator without its example, which is Python and of no use in YAML."""
    return inspect.cleandoc(kind.__doc__ or "").partition("\n\nExample:")[0]


def schema(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of an evaluator's parameters."""
    definitions: dict[str, Any] = {}
    described = descriptions(kind)
    properties = {}
    for parameter in _parameters(kind):
        property_schema = _parameter_schema(kind, parameter)
        definitions |= property_schema.pop("$defs", {})
        if parameter.name in described:
            property_schema["description"] = described[parameter.name]
        if not is_required(parameter):
            property_schema["default"] = jsonable(_default(parameter))
        properties[parameter.name] = property_schema
    tree: dict[str, Any] = {
        "$schema": _DIALECT,
        "title": kind.__name__,
        "description": description_of(kind),
        "type": "object",
        "properties": properties,
        "required": [p.name for p in _parameters(kind) if is_required(p)],
        "additionalProperties": False,
    }
    return tree | ({"$defs": definitions} if definitions else {}) | dict(getattr(kind, "schema_extra", {}))


def validate_parameter(kind: object, key: str, value: object, *, path: str) -> Any:
    """Return `value` as the parameter `key` takes it: numbers and texts as they are, containers converted.

    A bool may also be a word such as `no`, as YAML has it.

    Raises:
        ConfigurationError: starting with `path`.
    """
    adapter = _adapter(kind, key)
    # Lax rules would read true as 1.0 and "12" as 12.
    strict = isinstance(value, str | int | float) or None
    try:
        return adapter.validate_python(value, strict=strict)
    except ValueError as error:
        # In YAML 1.2 `no` is a text; people who write it mean False.
        word = read_boolean(value)
        if isinstance(word, bool) and word is not value:
            with contextlib.suppress(ValueError):
                return adapter.validate_python(word, strict=True)
        raise ConfigurationError(_explain_error(path, value, error), setting=key) from None


@cache
def descriptions(kind: Any) -> Mapping[str, str]:
    """Return the string below each field of a class and of its bases; none where there is no source."""
    described: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__ != "builtins":
            described |= _strings_below_fields(base)
    return described


def _parameter_docs(kind: Any) -> tuple[ParameterDoc, ...]:
    described = descriptions(kind)
    return tuple(
        ParameterDoc(
            name=parameter.name,
            type=parameter.type if isinstance(parameter.type, str) else _type_name(parameter.type),
            required=is_required(parameter),
            default=None if is_required(parameter) else jsonable(_default(parameter)),
            description=described.get(parameter.name, ""),
            common=parameter.name in COMMON_FIELDS,
        )
        for parameter in _parameters(kind)
    )


def _parameters(kind: type[Evaluator]) -> list[Field[Any]]:
    """The fields, an evaluator's own before the common ones."""
    return sorted(settable_fields(kind).values(), key=lambda f: f.name in COMMON_FIELDS)


def _default(parameter: Field[Any]) -> Any:
    factory = parameter.default_factory
    return factory() if callable(factory) else parameter.default


def _parameter_schema(kind: object, parameter: Field[Any]) -> dict[str, Any]:
    own_schema = parameter.metadata.get("json_schema")
    tree = dict(own_schema) if own_schema is not None else _adapter(kind, parameter.name).json_schema()
    tree.pop("title", None)
    return tree


@cache
def _adapter(kind: object, key: str) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(_hints(kind)[key])


@cache
def _hints(kind: object) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@cache  # to find the source of a class, its whole module is parsed
def _strings_below_fields(kind: Any) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):
        return {}
    (definition,) = tree.body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    described = {}
    for statement, below in pairwise(body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            text = _string(below)
            if text:
                described[statement.target.id] = " ".join(text.split())
    return described


def _string(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return value if isinstance(value, str) else None
    return None


def _type_name(hint: object) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)


def _explain_error(path: str, value: object, error: ValueError) -> str:
    errors = getattr(error, "errors", None)
    details = errors() if callable(errors) else []
    messages = list(dict.fromkeys(_message(detail) for detail in details))
    text = "; or ".join(messages) if messages else str(error)
    advice = " Put it in quotes." if _wants_text(details) and isinstance(value, int | float) else ""
    return f"{path}: {text} (got {quote(value)}, {type(value).__name__}).{advice}"


def _message(detail: Mapping[str, Any]) -> str:
    indexes = [step for step in detail["loc"] if isinstance(step, int)]
    where = "".join(f"[{index}]" for index in indexes)
    if detail["type"] == "missing":
        where += f".{detail['loc'][-1]}"
    return f"{where}: {describe_requirement(detail)}" if where else describe_requirement(detail)


def _wants_text(details: list[Any]) -> bool:
    return any(detail["type"] == "string_type" for detail in details)

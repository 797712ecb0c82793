"""`JsonSchema`: validate the output against a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

from dokimos._core.jsonable import jsonable
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import pluralize, quote, shorten
from dokimos.errors import ConfigurationError, UnusableOutputError
from dokimos.evaluators._base import Evaluator

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

_MAX_SHOWN_ERRORS: Final = 5
_MAX_COMPILED_SCHEMAS: Final = 512


@dataclass(frozen=True, kw_only=True)
class JsonSchema(Evaluator):
    """Passes when the output, a JSON text or a structured value, is valid under a JSON Schema.

    The draft is the one that `$schema` names, else 2020-12. A `$ref` may point into the schema itself only:
    nothing is read from a file or the network.

    Example:
        >>> schema = {"type": "object", "required": ["days"]}
        >>> JsonSchema(schema=schema).evaluate(EvalTestCase.of("Days?", '{"days": 30}')).success
        True
    """

    method_source = "JSON Schema, draft 2020-12 or the one that `$schema` names."
    default_name = "JSON Schema"
    requires: ClassVar[tuple[str, ...]] = ("actual_output",)

    schema: Mapping[str, Any]
    """The schema, as a map."""
    check_formats: bool = True
    """Check `format` too, such as "date" or "email", which newer drafts treat as an annotation."""
    threshold: float | None = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.schema, Mapping):
            raise ConfigurationError(f"{self.name}: schema must be a map, not {quote(self.schema)}.")
        try:
            compile_schema(self._schema_text, check_formats=self.check_formats)
        except ValueError as error:
            raise ConfigurationError(f"{self.name}: schema is not valid: {error}", setting="schema") from None

    def score(self, case: EvalTestCase) -> Score:
        instance = _parse_instance(case.actual_outputs.get("output"))
        errors = find_violations(
            compile_schema(self._schema_text, check_formats=self.check_formats), instance
        )
        if not errors:
            return Score(1.0, "The output is valid under the schema.")
        first = "; ".join(errors[:_MAX_SHOWN_ERRORS])
        more = (
            f"; and {pluralize(len(errors) - _MAX_SHOWN_ERRORS, 'more error')}"
            if len(errors) > _MAX_SHOWN_ERRORS
            else ""
        )
        return Score(
            0.0, f"The output violates the schema: {first}{more}.", metadata={"errors": list(errors)}
        )

    @cached_property
    def _schema_text(self) -> str:
        return schema_text(self.schema)


def schema_text(schema: Mapping[str, Any] | bool) -> str:
    """Return the JSON text of a schema, the cache key of `compile_schema`."""
    # Sorted, so that equal schemas are compiled once.
    return json.dumps(jsonable(schema), sort_keys=True)


@lru_cache(maxsize=_MAX_COMPILED_SCHEMAS)
def compile_schema(schema: str, *, check_formats: bool = True) -> Validator:
    """Compile a schema, given as JSON text, once.

    Raises:
        ValueError: saying what is wrong with the schema, and where.
    """
    import jsonschema_rs

    try:
        # Schemas come with data sets: none of them may make the process fetch an address or read a file.
        return jsonschema_rs.validator_for(
            json.loads(schema), validate_formats=check_formats, retriever=_refuse_external_reference
        )
    except jsonschema_rs.ValidationError as error:
        raise ValueError(f"{_describe_error(error)}.") from None


def find_violations(validator: Validator, instance: object) -> tuple[str, ...]:
    """Return what is wrong with a JSON value, each with its path; empty when it is valid."""
    # Listing errors takes longer than validating, and most outputs have none.
    if validator.is_valid(instance):
        return ()
    return tuple(_describe_error(error) for error in validator.iter_errors(instance))


def _parse_instance(output: object) -> Any:
    if not isinstance(output, str):
        return jsonable(output)
    try:
        # `json` would accept NaN and Infinity, which are not JSON.
        return jsonable(json.loads(output, parse_constant=_refuse_constant))
    except (ValueError, RecursionError) as error:
        detail = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise UnusableOutputError(f"The output is not JSON ({detail}): {quote(output)}.") from None


def _describe_error(error: ValidationError) -> str:
    path = "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    return f"{path}: {shorten(error.message, 200)}"


def _refuse_external_reference(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema, and schemas are never fetched")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")

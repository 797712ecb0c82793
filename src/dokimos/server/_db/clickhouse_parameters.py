"""Statements for ClickHouse, whose values go beside the text, as parameters that the server binds itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import BindParameter, Boolean, ColumnClause, Float, Integer, Select, TupleType
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import NullType, TypeEngine

from dokimos.server._db.trace_tables import SPAN_START

START_COLUMN: Final = "start_order"
"""The column for what SQLite and PostgreSQL have an index of: the start, one that is unknown at the end."""
_ESCAPES: Final = str.maketrans(
    {"\\": "\\\\", "'": "\\'", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0", "\b": "\\b", "\f": "\\f"}
)


@dataclass(slots=True)
class Statement:
    """A statement with its parameters, as ClickHouse has them: `{name:Type}` in the text."""

    text: str
    parameters: dict[str, str] = field(default_factory=dict)


def format_parameter(value: object) -> str:
    """Return a value as the text of a parameter: a text escaped, lists and tuples with their texts quoted."""
    if isinstance(value, str):
        return value.translate(_ESCAPES)
    return _format_nested(value)


def _format_nested(value: object) -> str:
    if isinstance(value, str):
        return f"'{value.translate(_ESCAPES)}'"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple):
        return f"({','.join(map(_format_nested, value))})"
    if isinstance(value, Sequence):
        return f"[{','.join(map(_format_nested, value))}]"
    raise TypeError(f"{type(value).__name__} cannot be a parameter for ClickHouse")


def compile_query(query: Select[Any]) -> Statement:
    """Return a query of the table `spans` as ClickHouse runs it."""
    compiled = query.compile(dialect=_Dialect())
    assert isinstance(compiled, _Compiler)
    return Statement(str(compiled), {key: format_parameter(each) for key, each in compiled.values.items()})


class _Compiler(SQLCompiler):
    """Writes queries with the parameters and functions of ClickHouse."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.values: dict[str, object] = {}
        super().__init__(*arguments, **options)

    def visit_bindparam(self, bindparam: BindParameter[Any], *_: Any, **__: Any) -> str:
        name = f"p{len(self.values)}"
        value = bindparam.effective_value
        kind = type_of(bindparam.type, value)
        if bindparam.expanding:
            assert isinstance(value, Sequence)
            value = [
                tuple(each) if isinstance(each, Sequence) and not isinstance(each, str) else each
                for each in value
            ]
            kind = f"Array({kind})"
        self.values[name] = value
        return f"{{{name}:{kind}}}"

    def visit_column(self, column: ColumnClause[Any], *arguments: Any, **options: Any) -> str:
        if column.is_literal and column.name == SPAN_START:
            return START_COLUMN
        text: str = super().visit_column(column, *arguments, **options)
        return text

    def visit_substr_func(self, function: Any, **options: Any) -> str:
        # That of ClickHouse counts bytes.
        return f"substringUTF8{self.function_argspec(function, **options)}"


class _Dialect(DefaultDialect):
    name = "clickhouse"
    statement_compiler = _Compiler
    supports_statement_cache = False


def type_of(kind: TypeEngine[Any], value: object) -> str:
    """Return the type of ClickHouse that a value of a column has."""
    if isinstance(kind, TupleType):
        return f"Tuple({', '.join(type_of(each, None) for each in kind.types)})"
    if isinstance(kind, Integer | Boolean):
        return "Int64"
    if isinstance(kind, Float):
        return "Float64"
    if isinstance(kind, NullType) and isinstance(value, int):
        return "Int64"
    return "String"

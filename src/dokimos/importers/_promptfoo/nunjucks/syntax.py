"""What a template consists of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from dokimos.importers._promptfoo.nunjucks.values import Value


@dataclass(frozen=True, slots=True)
class Constant:
    value: Value


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class ListOf:
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    entries: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Member:
    target: Expression
    key: Expression


@dataclass(frozen=True, slots=True)
class Arguments:
    positional: tuple[Expression, ...] = ()
    named: tuple[tuple[str, Expression], ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    target: Expression
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class Filter:
    name: str
    value: Expression
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class Test:
    """`value is name(argument)`."""

    name: str
    value: Expression
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class Choice:
    """`body if condition else otherwise`."""

    condition: Expression
    body: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """An operator of JavaScript between two values."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Unary:
    """`!`, `-` or `+` before a value, or `floor` around one."""

    operator: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Capture:
    """What a part of the template writes, as a value."""

    body: tuple[Statement, ...]


Expression: TypeAlias = (
    Constant | Name | ListOf | MapOf | Member | Call | Filter | Test | Choice | Binary | Unary | Capture
)


@dataclass(frozen=True, slots=True)
class Data:
    text: str


@dataclass(frozen=True, slots=True)
class Output:
    value: Expression
    source: str
    """The tag as it stands in the template."""


@dataclass(frozen=True, slots=True)
class If:
    condition: Expression
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class For:
    names: tuple[str, ...]
    values: Expression
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class Set:
    names: tuple[str, ...]
    value: Expression


@dataclass(frozen=True, slots=True)
class Macro:
    name: str
    parameters: tuple[str, ...]
    defaults: tuple[tuple[str, Expression], ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Switch:
    value: Expression
    cases: tuple[tuple[Expression, tuple[Statement, ...]], ...]
    otherwise: tuple[Statement, ...] = field(default=())


Statement: TypeAlias = Data | Output | If | For | Set | Macro | Switch

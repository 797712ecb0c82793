"""A tool: its name, its parameters as JSON Schema, and the check of the arguments of a call."""

from __future__ import annotations

import difflib
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Literal, TypeAlias

from dokimos.errors import DokimosError

Kind: TypeAlias = Literal["string", "number", "integer", "boolean"]
Arguments: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = dict[str, Any]

_TYPES: Final[Mapping[Kind, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
}
MOST_CHARACTERS: Final = 10_000
"""The longest text that an argument may be."""


class ToolError(DokimosError):
    """A call of a tool that cannot be answered; its text is for the agent that called."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool."""

    name: str
    kind: Kind
    description: str
    _: KW_ONLY
    required: bool = False
    default: Any = None
    """What an absent argument stands for; None for nothing."""
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None

    def schema(self) -> dict[str, Any]:
        """Return the parameter as JSON Schema."""
        tree: dict[str, Any] = {"type": self.kind, "description": self.description}
        optional = {"default": self.default, "minimum": self.minimum, "maximum": self.maximum}
        tree |= {name: value for name, value in optional.items() if value is not None}
        if self.choices:
            tree["enum"] = list(self.choices)
        return tree

    def check(self, value: Any) -> Any:
        """Return the value as this type. Raises `ToolError` where it is not of it, or out of range."""
        if self.kind == "integer" and isinstance(value, float) and value.is_integer():
            value = int(value)  # some clients write all numbers with a point
        is_typed = isinstance(value, _TYPES[self.kind])
        if not is_typed or (isinstance(value, bool) and self.kind != "boolean"):
            raise ToolError(f"{self.name} must be of type {self.kind}, not {value!r:.80}.")
        if isinstance(value, str) and len(value) > MOST_CHARACTERS:
            raise ToolError(
                f"{self.name} has {len(value):,} characters; at most {MOST_CHARACTERS:,} are allowed."
            )
        if self.choices and value not in self.choices:
            raise ToolError(f"{self.name} must be one of {', '.join(self.choices)}, not {value!r:.80}.")
        self._check_range(value)
        return value

    def _check_range(self, value: Any) -> None:
        if isinstance(value, float) and not math.isfinite(value):
            raise ToolError(f"{self.name} must be a finite number, not {value!r}.")
        if self.minimum is not None and value < self.minimum:
            raise ToolError(f"{self.name} must be at least {self.minimum:g}, not {value!r:.80}.")
        if self.maximum is not None and value > self.maximum:
            raise ToolError(f"{self.name} must be at most {self.maximum:g}, not {value!r:.80}.")


CURSOR: Final = Parameter(
    "cursor", "string", "Continues an answer that was cut: the next_cursor of the answer before."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Something that an agent can ask for."""

    name: str
    description: str
    call: Callable[[Arguments], Awaitable[Answer]]
    """Takes the checked arguments, with a value or None for each parameter."""
    parameters: tuple[Parameter, ...] = ()
    spends: bool = False
    """Whether a call may cost money: it is ended when its client goes away."""
    changes: bool = False
    """Whether a call changes something that others see."""
    replaces: bool = False
    """Whether what was there before a call is lost."""

    def describe(self) -> dict[str, Any]:
        """Return the tool as `tools/list` answers it."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": {one.name: one.schema() for one in self.parameters},
                "required": [one.name for one in self.parameters if one.required],
                "additionalProperties": False,
            },
            "annotations": {
                "readOnlyHint": not (self.spends or self.changes),
                "destructiveHint": self.replaces,
                "openWorldHint": self.spends,
            },
        }

    def check(self, arguments: object) -> dict[str, Any]:
        """Return the arguments of a call with defaults for those that are absent or null.

        Raises:
            ToolError: naming the first argument that is missing, unknown or wrong.
        """
        if arguments is not None and not isinstance(arguments, Mapping):
            raise ToolError(f"The arguments must be an object, not {arguments!r:.80}.")
        given = {name: value for name, value in (arguments or {}).items() if value is not None}
        known = {one.name: one for one in self.parameters}
        for name in given:
            if name not in known:
                raise ToolError(_explain_unknown(str(name), list(known)))
        for one in self.parameters:
            if one.required and one.name not in given:
                raise ToolError(f"{one.name} is missing: {one.description}")
        return {name: one.check(given[name]) if name in given else one.default for name, one in known.items()}


def _explain_unknown(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else f" It has {', '.join(known) or 'none'}."
    return f"There is no parameter {name[:80]!r}.{hint}"

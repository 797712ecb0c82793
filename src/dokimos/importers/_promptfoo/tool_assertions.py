"""Assertions about tool calls as expected tools of a case, or as metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dokimos.importers._promptfoo.converted_case import Assertion, Block

_SEVERAL = "the case has other expectations of its tools, which one list cannot say together"


def tool_used(assertion: Assertion) -> None:
    """`trajectory:tool-used`: names, or one with the numbers of its calls."""
    value = assertion.value
    if isinstance(value, Mapping) and value.get("max") == 0:
        assertion.lose("a tool that must not be called: name it under forbidden_tools")
        return
    if isinstance(value, Mapping) and value.get("min") == 0:
        assertion.lose("a tool that need not be called: expected_tools has only those that are")
        return
    if isinstance(value, Mapping) and not set(value) - {"name", "min", "max"}:
        _expect(assertion, [_limit_calls(value)] if _is_name(value.get("name")) else [])
        return
    names = value if isinstance(value, list) else [value]
    _expect(assertion, list(names) if all(map(_is_name, names)) else [])


def tool_sequence(assertion: Assertion) -> None:
    """`trajectory:tool-sequence`: names in their order, alone or among others."""
    value = assertion.value
    steps = value.get("steps") if isinstance(value, Mapping) else value
    mode = value.get("mode", "in_order") if isinstance(value, Mapping) else "in_order"
    if not isinstance(steps, list) or not all(map(_is_name, steps)) or mode not in ("in_order", "exact"):
        assertion.lose("only the names of tools in their order can be converted")
    elif mode == "exact" and len(set(steps)) < len(steps):
        assertion.lose("a tool that is to be called several times in an exact order has no counterpart")
    else:
        _expect(assertion, list(map(_match_name, steps)), ordered=True, exact=mode == "exact")


def tool_arguments(assertion: Assertion) -> None:
    """`trajectory:tool-args-match`: the arguments that a call has, among others."""
    value = assertion.value if isinstance(assertion.value, Mapping) else {}
    arguments = value.get("args", value.get("arguments"))
    if value.get("mode", "partial") != "partial" or not isinstance(arguments, Mapping):
        assertion.lose("only args in the mode partial can be converted")
    elif any(isinstance(one, Mapping | list) for one in arguments.values()):
        assertion.lose("args within args have no counterpart")
    elif not _is_name(value.get("name")):
        assertion.lose("only the name of a tool can be converted")
    else:
        _expect(assertion, [{**_match_name(value["name"]), "args": dict(arguments)}])


def tool_call_f1(assertion: Assertion) -> None:
    """`tool-call-f1`: with its usual threshold of 1, exactly these tools."""
    names = assertion.value if isinstance(assertion.value, list) else str(assertion.value or "").split(",")
    names = [name.strip() if isinstance(name, str) else name for name in names]
    are_names = all(map(_is_name, names))
    if assertion.threshold(1.0) != 1.0:
        assertion.lose("only a threshold of 1 can be converted")
    else:
        _expect(
            assertion,
            list(map(_match_name, dict.fromkeys(names))) if are_names else [],
            exact=True,
        )


def valid_calls(assertion: Assertion) -> Block | None:
    """`is-valid-openai-tools-call` and the like: calls of tools that exist, with valid arguments."""
    if assertion.negated:
        return assertion.lose("there is no negated form")
    assertion.case.notes.change(
        f"{assertion.kind}: it passes a reply without a call; where there has to be one, add expected_tools"
    )
    return {"type": "evaluator", "name": "tool_call_validity", "threshold": 1.0}


def _expect(assertion: Assertion, tools: list[Any], *, ordered: bool = False, exact: bool = False) -> None:
    """Add tools to those that the case expects, where one list can say all of it."""
    case = assertion.case
    if assertion.negated or not tools:
        assertion.lose("only the names of tools can be converted")
    elif case.tools and (ordered or exact or case.tools_are):
        assertion.lose(_SEVERAL)
    else:
        case.tools += tools
        case.tools_are = {key: True for key, holds in (("exact", exact), ("ordered", ordered)) if holds}


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _match_name(name: str) -> dict[str, Any]:
    return {"name": name, "match": "exact"}


def _limit_calls(value: Mapping[str, Any]) -> dict[str, Any]:
    limits = {"count": value.get("min"), "max_count": value.get("max")}
    return {
        **_match_name(value["name"]),
        **{key: one for key, one in limits.items() if isinstance(one, int) and one > 0},
    }

"""Rules about the order of tool calls: what comes before what, and what may follow an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Final, TypeAlias

from dokimos._core.agent import ToolCall
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize, quote
from dokimos.errors import ConfigurationError
from dokimos.evaluators._agent.base import CallsEvaluator, names_of, read_calls
from dokimos.evaluators._agent.tool_errors import ToolErrors
from dokimos.evaluators._setting_checks import check_list, check_mapping

Calls: TypeAlias = Sequence[ToolCall]
Rule: TypeAlias = Callable[[Calls], str | None]
"""Says what breaks the rule, None where it is kept."""

RETRY: Final = "retry"
GIVE_UP: Final = "give_up"

_NAMES: Final = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_PAIR: Final = {**_NAMES, "minItems": 2}

RULES_SCHEMA: Final[dict[str, Any]] = {
    "type": "array",
    "items": {
        "oneOf": [
            {
                "type": "object",
                "additionalProperties": False,
                "required": [form],
                "properties": {form: content},
            }
            for form, content in (
                ("before", _PAIR),
                ("never_after", _PAIR),
                ("leads_to", _PAIR),
                ("called", _NAMES),
            )
        ]
        + [
            {
                "type": "object",
                "additionalProperties": False,
                "required": ["after_error"],
                "properties": {
                    "after_error": _NAMES,
                    "tools": _NAMES,
                    "max_retries": {"type": "integer", "minimum": 0},
                },
            }
        ]
    },
}


@dataclass(frozen=True, kw_only=True)
class ToolGraph(CallsEvaluator):
    """Share of the rules about the order of tool calls that the agent kept; 1 for all.

    A rule about tools that were not called is kept. `start`, `end` and `edges` count as one rule each.

    Example:
        >>> case = EvalTestCase({}, {"toolCalls": [{"name": "pay"}, {"name": "confirm"}]})
        >>> ToolGraph(rules=[{"before": ["confirm", "pay"]}]).evaluate(case).reason
        "0 of 1 rule kept; 'pay' was called before 'confirm'."
    """

    rules: Sequence[Mapping[str, Any]] = field(default=(), metadata={"json_schema": RULES_SCHEMA})
    """{"before": ["a", "b"]}: no b before the first a; {"never_after": ["a", "b"]}: no b after an a;
    {"leads_to": ["a", "b"]}: some b after each a; {"called": ["a"]}; {"after_error": ["retry", "give_up"]}:
    after a failed call the same tool again, or no more calls, or a tool that is named there, for all tools or
    some ("tools"), with at most "max_retries" in a row."""
    edges: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Which tools may come right after which; a tool that is not a key here may only come last."""
    start: Sequence[str] = ()
    """The tools that the first call may be of."""
    end: Sequence[str] = ()
    """The tools that the last call may be of."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("start", "end"):
            _check_names(self.name, name, getattr(self, name))
        check_mapping(self, "edges", self.edges, "{'search': ['answer']}")
        check_list(self, "rules", self.rules, "rules")
        for tool, followers in self.edges.items():
            _check_names(self.name, f"edges[{tool!r}]", followers)
        if not self._rules:
            raise ConfigurationError(f"{self.name}: needs rules, edges, start or end.")

    def score(self, case: EvalTestCase) -> Score:
        calls = read_calls(case, self.tool_calls_key)
        outcomes = [(text, rule(calls)) for text, rule in self._rules]
        results = [{"rule": text, "kept": fault is None, "reason": fault or ""} for text, fault in outcomes]
        faults = [fault for _, fault in outcomes if fault is not None]
        passed = len(outcomes) - len(faults)
        share = f"{passed} of {pluralize(len(outcomes), 'rule')} kept"
        reason = f"{share}; {'; '.join(faults)}." if faults else f"{share}."
        return Score(passed / len(outcomes), reason, metadata={"rules": results})

    @cached_property
    def _rules(self) -> list[tuple[str, Rule]]:
        rules = [(quote(data, 200), _rule(self.name, data)) for data in self.rules]
        if self.start:
            rules.append(
                (f"starts with {format_list(tuple(self.start))}", partial(_check_end, self.start, 0))
            )
        if self.end:
            rules.append((f"ends with {format_list(tuple(self.end))}", partial(_check_end, self.end, -1)))
        if self.edges:
            rules.append(("follows the edges", partial(_check_edges, self.edges)))
        return rules


def _rule(owner: str, data: Mapping[str, Any]) -> Rule:
    if isinstance(data, Mapping):
        if "after_error" in data:
            return _after_error_rule(owner, data)
        if len(data) == 1:
            ((form, names),) = data.items()
            least = _LEAST.get(form)
            if least is not None and _are_names(names, least):
                return partial(_RULES[form], tuple(names))
    raise ConfigurationError(
        f'{owner}: the rule {quote(data)} is not known; expected {{"before": [A, B]}}, '
        '{"never_after": [A, B]}, {"leads_to": [A, B]}, {"called": [A]} or {"after_error": [...]}, '
        "with the names of tools."
    )


def _after_error_rule(owner: str, data: Mapping[str, Any]) -> Rule:
    unknown = sorted(set(data) - {"after_error", "tools", "max_retries"})
    tools, retries = data.get("tools", ()), data.get("max_retries")
    wrong_retries = retries is not None and (type(retries) is not int or retries < 0)
    if unknown or wrong_retries or not _are_names(data["after_error"], 1) or not _are_names(tools, 0):
        raise ConfigurationError(
            f'{owner}: the rule {quote(data)} must be {{"after_error": ["retry", "give_up" or tools], '
            '"tools": [NAME, ...], "max_retries": a whole number}, the last two optional.'
        )
    return partial(_check_after_error, frozenset(data["after_error"]), frozenset(tools), retries)


def _check_names(owner: str, field: str, value: object) -> None:
    if not _are_names(value, 0):
        raise ConfigurationError(f"{owner}: {field} must be a list of tool names, not {quote(value)}.")


def _are_names(value: object, least: int) -> bool:
    return isinstance(value, list | tuple) and len(value) >= least and all(isinstance(n, str) for n in value)


def _must_come_before(names: Sequence[str], calls: Calls) -> str | None:
    called = names_of(calls)
    for first, second in pairwise(names):
        if second in called and first not in called[: called.index(second)]:
            return f"{second!r} was called before {first!r}"
    return None


def _must_not_come_after(names: Sequence[str], calls: Calls) -> str | None:
    called = names_of(calls)
    first, *later = names
    if first in called:
        wrong = [name for name in called[called.index(first) + 1 :] if name in later]
        if wrong:
            return f"{wrong[0]!r} was called after {first!r}"
    return None


def _must_lead_to(names: Sequence[str], calls: Calls) -> str | None:
    called = names_of(calls)
    for first, second in pairwise(names):
        if first in called and second not in called[_last(called, first) + 1 :]:
            return f"{first!r} was not followed by {second!r}"
    return None


def _must_call(names: Sequence[str], calls: Calls) -> str | None:
    missing = [name for name in names if name not in names_of(calls)]
    return f"{format_list(missing)} {'was' if len(missing) == 1 else 'were'} not called" if missing else None


def _check_after_error(
    allowed: frozenset[str], tools: frozenset[str], max_retries: int | None, calls: Calls
) -> str | None:
    in_a_row = 0
    for index, call in enumerate(calls):
        if (tools and call.name not in tools) or _FAILURES.fault_of(call) is None:
            in_a_row = 0
            continue
        following = calls[index + 1].name if index + 1 < len(calls) else None
        # Consecutive retries of the same tool after failures, which max_retries limits.
        in_a_row = in_a_row + 1 if following == call.name else 0
        if not _may_follow(call.name, following, allowed):
            after = "no other" if following is None else f"one of {following!r}"
            return f"the failed call of {call.name!r} was followed by {after}"
        if max_retries is not None and in_a_row > max_retries:
            return f"{call.name!r} was retried more than {pluralize(max_retries, 'time')}"
    return None


def _may_follow(failed: str, following: str | None, allowed: frozenset[str]) -> bool:
    if following is None:
        return GIVE_UP in allowed
    return following in allowed or (following == failed and RETRY in allowed)


def _check_end(names: Sequence[str], index: int, calls: Calls) -> str | None:
    if not calls:
        return "there are no calls"
    name = calls[index].name
    return None if name in names else f"the {'last' if index else 'first'} call is of {name!r}"


def _check_edges(edges: Mapping[str, Sequence[str]], calls: Calls) -> str | None:
    for first, second in pairwise(names_of(calls)):
        if second not in edges.get(first, ()):
            return f"{second!r} must not come right after {first!r}"
    return None


def _last(names: Sequence[str], name: str) -> int:
    return len(names) - 1 - names[::-1].index(name)


# A tool that returns nothing has not failed: only what reports an error can require a reaction.
_FAILURES: Final = ToolErrors(treat_blank_as_error=False)
_RULES: Final[dict[str, Callable[[Sequence[str], Calls], str | None]]] = {
    "before": _must_come_before,
    "never_after": _must_not_come_after,
    "leads_to": _must_lead_to,
    "called": _must_call,
}
_LEAST: Final = {"before": 2, "never_after": 2, "leads_to": 2, "called": 1}

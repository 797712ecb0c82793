"""`ToolErrors`: whether the tools that an agent called failed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from dokimos._core.agent import ToolCall
from dokimos._core.keys import CALL_ERROR
from dokimos._core.patterns import search_within_limit
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import pluralize, quote
from dokimos.errors import ConfigurationError, EvaluationError
from dokimos.evaluators._agent.base import CallsEvaluator, read_calls

ErrorDetector: TypeAlias = Callable[[str], bool]
"""A function of a result that says whether it tells of an error."""


@dataclass(frozen=True, kw_only=True)
class ToolErrors(CallsEvaluator):
    """Share of the tool calls that did not fail; 1 where there are none.

    A call failed when its result is missing or blank, when the detector says so, when the result is a JSON
    object whose top-level "error" is neither null, false nor "", or when the call's own metadata has an
    "error", as those have whose framework reported one.

    Example:
        >>> call = {"name": "search", "result": '{"error": "timeout"}'}
        >>> ToolErrors().evaluate(EvalTestCase({}, {"toolCalls": [call]})).score
        0.0
    """

    default_name = "Tool Error"

    treat_blank_as_error: bool = True
    """Whether a call without a result, or with a blank one, failed."""
    detect_json_error_field: bool = True
    """Whether to look for the field "error" in results that are JSON objects."""
    error_detector: ErrorDetector | str | None = field(
        default=None, metadata={"json_schema": {"type": ["string", "null"]}}
    )
    """A further sign of an error: a pattern to find in a result, such as "HTTP 5..", or a function of it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._detects  # validates now, not at the first case

    def score(self, case: EvalTestCase) -> Score:
        calls = read_calls(case, self.tool_calls_key)
        faults = [self.fault_of(call) for call in calls]
        results = [
            {"toolName": call.name, "errored": fault is not None, "reason": fault or ""}
            for call, fault in zip(calls, faults, strict=True)
        ]
        failed = sum(fault is not None for fault in faults)
        value = (len(calls) - failed) / len(calls) if calls else 1.0
        return Score(value, _reason(calls, faults, failed), metadata={"results": results})

    def fault_of(self, call: ToolCall) -> str | None:
        """Return what went wrong with a call, None where nothing did.

        Raises:
            EvaluationError: when a missing result is a failure and the content of the call was not recorded.
        """
        reported = call.metadata.get(CALL_ERROR)
        if reported:
            # Some frameworks only flag a failed call; its result then says what went wrong.
            return f"an error was reported: {quote(reported if reported is not True else call.result)}"
        # Reported errors come first: frameworks often leave the result of a failed call empty.
        if call.result is None or not call.result.strip():
            return self._fault_of_blank(call)
        if self._detects is not None and self._detects(call.result):
            return f"the result tells of an error: {quote(call.result)}"
        if self.detect_json_error_field:
            return _json_error(call.result)
        return None

    def _fault_of_blank(self, call: ToolCall) -> str | None:
        if not self.treat_blank_as_error:
            return None
        if call.result is None and call.has_unknown_arguments:
            raise EvaluationError(
                f"The result of the call of {call.name!r} was not recorded; let the instrumentation capture "
                "the content of tool calls, or rely on reported errors alone: treat_blank_as_error=False."
            )
        return "there is no result"

    @cached_property
    def _detects(self) -> ErrorDetector | None:
        detector = self.error_detector
        if detector is None or callable(detector):
            return detector
        try:
            pattern = re.compile(detector)
        except (re.error, TypeError) as error:
            raise ConfigurationError(
                f"{self.name}: error_detector must be a pattern or a function: {error}."
            ) from None
        return lambda result: search_within_limit(pattern, result) is not None


def _json_error(result: str) -> str | None:
    if not result.lstrip().startswith("{"):
        return None
    try:
        content: Any = json.loads(result)
    except (ValueError, RecursionError):
        return None
    error = content.get("error") if isinstance(content, dict) else None
    # APIs commonly send the field with success, too.
    if error is None or error is False or error == "":
        return None
    return f'the result has an "error": {quote(error)}'


def _reason(calls: Sequence[ToolCall], faults: Sequence[str | None], failed: int) -> str:
    if not calls:
        return "There are no tool calls that could have failed."
    if not failed:
        return f"{pluralize(len(calls), 'tool call')} and none failed."
    name, fault = next((c.name, f) for c, f in zip(calls, faults, strict=True) if f is not None)
    first = f"the first, {name}, because {fault}"
    return f"{failed} of {pluralize(len(calls), 'tool call')} failed; {first}."

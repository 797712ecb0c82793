"""A suite's result as people read it on a terminal: each test with its tools, metrics and reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dokimos._core.error_detail import ErrorDetail, append_place
from dokimos._core.jsonable import text_form
from dokimos._core.keys import OUTPUT
from dokimos._core.number_format import duration, to_single_line
from dokimos._core.outcome import Outcome
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunStatus
from dokimos._core.text import shorten
from dokimos.reporting._console import Signs
from dokimos.suites._case_plan import EXPECTED_TOOLS, TURN_ERROR, TURNS, turn_error_detail

MAX_LENGTH: Final = 300
_TURNS_ANSWERED: Final = "Turns Answered"
_VERDICTS: Final = {
    Outcome.PASSED: ("PASS", "good"),
    Outcome.FAILED: ("FAIL", "bad"),
    Outcome.ERRORED: ("ERROR", "bad"),
    Outcome.INFORMATIONAL: ("PASS (informational)", "good"),
    Outcome.NOT_JUDGED: ("not evaluated", "doubtful"),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line, and whether it tells of something good, bad, doubtful or neither."""

    text: str
    tone: str = ""


def render_item(
    item: ItemResult, signs: Signs, *, run: int | None = None, verbose: bool = False
) -> Iterator[Line]:
    """Yield the block of one test."""
    yield Line(f'Test: "{item.key}"{render_repeat(run)}')
    turns = item.actual_outputs.get(TURNS)
    if isinstance(turns, Sequence) and not isinstance(turns, str):
        yield from _render_turns(turns, verbose)
    else:
        yield Line(f'  Input: "{to_single_line(item.example.input or "", MAX_LENGTH)}"')
        if verbose and item.actual_output is not None:
            yield Line(f'  Reply: "{to_single_line(item.actual_output, MAX_LENGTH)}"')
    if item.error is not None:
        yield Line(f"  {signs.failed} Agent error: {_with_location(item.error, item.error_detail)}", "bad")
    yield from _render_tool_calls(item, signs)
    yield from _render_metrics(item, signs)
    yield _render_verdict(item)


def render_repeat(run: int | None) -> str:
    """Return what the first line of a test says of its repeat."""
    return "" if run is None else f" (run {run + 1})"


def render_summary(result: ExperimentResult) -> Iterator[Line]:
    """Yield what came of all tests, in one line."""
    summary = result.summary
    notes = [f"{summary.errored} errored"] if summary.errored else []
    if summary.informational:
        notes.append(f"{summary.informational} informational")
    if summary.not_judged:
        notes.append(f"{summary.not_judged} not evaluated")
    if summary.warned:
        notes.append(f"{summary.warned} with warnings")
    skipped = result.metadata.get("skipped") or {}
    if skipped:
        notes.append(f"{len(skipped)} left out")
    if result.status is not RunStatus.COMPLETED:
        notes += [*_format_not_run(result), result.status.in_words]
    text = ", ".join([f"{summary.passed} passed, {summary.failed - summary.errored} failed", *notes])
    good = summary.passed or summary.informational
    yield Line(text, "bad" if summary.failed else "good" if good else "doubtful")


def _format_not_run(result: ExperimentResult) -> list[str]:
    planned = (result.provenance.dataset_size or 0) * result.run_count
    left = planned - result.summary.total
    return [f"{left} not run"] if left > 0 else []


def render_skipped(skipped: Mapping[str, Any], signs: Signs) -> Iterator[Line]:
    """Yield the tests that were left out, with why."""
    for name, reason in skipped.items():
        yield Line(f'{signs.none} "{name}" left out: {reason}', "doubtful")


def render_not_run(names: Iterable[str], signs: Signs) -> Iterator[Line]:
    """Yield the cases that were not reached before the run stopped."""
    for name in names:
        yield Line(f'{signs.none} "{name}" not run', "doubtful")


def _render_turns(turns: Sequence[Any], verbose: bool) -> Iterator[Line]:
    for number, turn in enumerate(turns, 1):
        yield Line(f'  Turn {number}: "{to_single_line(str(turn.get("input", "")), MAX_LENGTH)}"')
        if turn.get(TURN_ERROR) is not None:
            yield Line(f"    error: {_with_location(str(turn[TURN_ERROR]), turn_error_detail(turn))}", "bad")
        elif verbose:
            yield Line(f'    Reply: "{to_single_line(text_form(turn.get(OUTPUT)) or "", MAX_LENGTH)}"')


def _render_tool_calls(item: ItemResult, signs: Signs) -> Iterator[Line]:
    result = item.result(EXPECTED_TOOLS)
    calls = item.actual_outputs.get("toolCalls") or ()
    names = [call["name"] if isinstance(call, Mapping) else call.name for call in calls]
    if result is None and not names:
        return
    sign = "" if result is None else f" {_sign(result, signs)}"
    yield Line(f"  Tools called: [{', '.join(names)}]{sign}", _tone(result))
    if result is not None and result.success is False:
        yield Line(f"    {to_single_line(result.reason, MAX_LENGTH)}", "bad")
    if result is not None and result.error is not None:
        yield Line(f"    error: {_with_location(result.error, result.error_detail)}", "doubtful")


def _render_metrics(item: ItemResult, signs: Signs) -> Iterator[Line]:
    results = [result for result in item.eval_results if _is_shown(result)]
    if results:
        yield Line("  Metrics:")
    for result in results:
        yield Line(f"    {_sign(result, signs)} {_format_metric(result, signs)}", _tone(result))
        if result.success is False and result.reason:
            yield Line(f"        {to_single_line(result.reason, MAX_LENGTH)}", "bad")


def _with_location(error: str, detail: ErrorDetail | None) -> str:
    return append_place(to_single_line(error, MAX_LENGTH), detail)


def _is_shown(result: EvalResult) -> bool:
    if result.name == EXPECTED_TOOLS:
        return False
    return result.name != _TURNS_ANSWERED or result.success is False


def _format_metric(result: EvalResult, signs: Signs) -> str:
    if result.error is not None:
        problem = _with_location(shorten(result.problem, MAX_LENGTH), result.error_detail)
        return f"{result.name}: error: {problem}"
    if result.skipped is not None:
        return f"{result.name}: skipped: {result.skipped}"
    # The long dash only where the terminal can show it: the short one stands for a metric not evaluated.
    none = "—" if signs.none == "–" else signs.none
    threshold = none if result.threshold is None else f"{result.threshold:g}"
    return f"{result.name}: {result.score:.2f} (threshold: {threshold})"


def _sign(result: EvalResult, signs: Signs) -> str:
    if result.error is not None:
        return "!"
    if result.success is None:
        return signs.none if result.skipped is not None else signs.dot
    return signs.passed if result.success else signs.failed


def _tone(result: EvalResult | None) -> str:
    if result is None or result.skipped is not None:
        return ""
    if result.error is not None:
        return "doubtful"
    return {True: "good", False: "bad", None: ""}[result.success]


def _render_verdict(item: ItemResult) -> Line:
    word, tone = _VERDICTS[item.outcome]
    took = item.metrics.latency_ms if item.metrics else None
    seconds = f" ({duration(took)})" if took is not None and took >= 1000 else ""
    return Line(f"  Result: {word}{seconds}", tone)

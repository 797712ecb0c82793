"""The evaluators of a case: each metric under a name of its own, over one turn or over all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dokimos.evaluators._base import Evaluator
from dokimos.suites._case_plan import TurnPlan
from dokimos.suites._metrics import BuiltMetric
from dokimos.suites._turn_metric import TRAJECTORY_PATH, ConversationMetric, TurnMetric, TurnsAnswered


@dataclass(frozen=True, slots=True)
class TurnMetrics:
    """What is evaluated in one turn."""

    turn: TurnPlan
    metrics: Sequence[BuiltMetric]
    tools: Evaluator | None = None
    """Whether the tools were called that the turn expects, where it expects any."""


def build_case_evaluators(groups: Sequence[TurnMetrics], *, conversation: bool) -> tuple[Evaluator, ...]:
    """Return the evaluators of a case.

    Metrics are distinguished by their position among those of one name, so that two of a kind coexist; in a
    conversation, metrics of one name in several turns are one.
    """
    parts: dict[str, list[TurnMetric]] = {}
    for group in groups:
        for name, part in _name_metrics(group, conversation):
            parts.setdefault(name, []).append(part)
    if not conversation:
        return tuple(part for (part,) in parts.values())
    joined = [_join_turns(name, found) for name, found in parts.items()]
    return (TurnsAnswered(count=len(groups)), *joined)


def _join_turns(name: str, parts: list[TurnMetric]) -> Evaluator:
    if TRAJECTORY_PATH in parts[0].inner.requires:
        return parts[-1]  # it looks at the conversation as a whole
    # Turns may differ in it; then each decides with its own, and the whole has none to show.
    thresholds = {part.threshold for part in parts}
    return ConversationMetric(
        name=name,
        parts=tuple(parts),
        threshold=thresholds.pop() if len(thresholds) == 1 else None,
        lower_is_better=parts[0].lower_is_better,
    )


def _name_metrics(group: TurnMetrics, conversation: bool) -> Iterator[tuple[str, TurnMetric]]:
    seen: dict[str, int] = {}
    if group.tools is not None:
        # First, so that a metric that somebody calls "Expected Tools" becomes the second of that name.
        name = group.tools.name
        yield name, TurnMetric(name=name, inner=group.tools, turn=group.turn, conversation=conversation,
                               threshold=1.0, fail_on_error=True)  # fmt: skip
        seen[name] = 1
    for built in group.metrics:
        number = seen[built.name] = seen.get(built.name, 0) + 1
        name = built.name if number == 1 else f"{built.name} ({number})"
        yield name, _turn_metric(name, built, group.turn, conversation)


def _turn_metric(name: str, built: BuiltMetric, turn: TurnPlan, conversation: bool) -> TurnMetric:
    metric = built.metric
    return TurnMetric(
        name=name,
        inner=built.evaluator,
        turn=turn if metric.ground_truth is None else replace(turn, ground_truth=metric.ground_truth),
        conversation=conversation,
        threshold=metric.threshold,
        decides=built.decides,
        needs_truth=built.registry_name == "structural_match",
        needs_context=built.needs_context,
        disabled=not metric.enabled,
        timeout=built.timeout,
        retries=metric.retry_on_failure or 0,
        fail_on_error=metric.fail_on_error,
        lower_is_better=built.evaluator.lower_is_better,
    )

"""The verdict of a gate: its status, why, and the evidence for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from shlex import quote
from typing import Any, Final

from dokimos._core.number_format import round_half_up, round_half_up_or_none
from dokimos._core.printable import Printable
from dokimos.comparison._diff import Change, MetricChange, RunComparison
from dokimos.comparison._tree import interval_tree, metric_tree, rates_tree
from dokimos.comparison._wording import evidence_sentence, format_points, level, points
from dokimos.gate._decision import Decision, Guard, GuardFinding
from dokimos.gate._gate_config import GateConfig, Severity
from dokimos.gate._severity import Drop
from dokimos.gate._worse_items import DataLine, WorseItems

MAX_CASES: Final = 50
MAX_REASONS: Final = 5
ACCEPT: Final = "To accept the change:"


class GateStatus(StrEnum):
    """The verdict of a gate."""

    PASS = "PASS"
    FAIL = "FAIL"
    NO_BASELINE = "NO_BASELINE"
    INCONCLUSIVE = "INCONCLUSIVE"
    """Nothing fired, but a drop cannot be told from noise, which passes unless power is required, or the
    comparison could not have seen the drop that it has to see, which does not pass."""


@dataclass(frozen=True, kw_only=True, repr=False)
class GateVerdict(Printable):
    """What a gate decided, with all the evidence.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> result = evaluate([Example.of("a", "A")], str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     verdict = RegressionGate("answers", root=Path(folder)).check(result)
        >>> verdict.passed
        True
    """

    __dokimos_view__ = "dokimos.gate._verdict_console:VIEW"

    status: GateStatus
    name: str
    """Of the baseline."""
    config: GateConfig
    decision: Decision | None = None
    """None if nothing was compared."""
    candidate_pass_rate: float | None = None
    no_baseline: GuardFinding | None = None
    baseline: str | None = None
    """Where the baseline is kept, or which run it is."""
    accept_command: str | None = None
    """The command that accepts the change."""
    note: str | None = None
    """What was done instead of comparing: a baseline was written, for example."""
    data_lines: Mapping[str, DataLine] = field(default_factory=dict)
    """Where items that got worse stand in the file of the data set, by their keys; where that is known."""

    @property
    def passed(self) -> bool:
        """What CI branches on: false for FAIL, a missing baseline that is required, and INCONCLUSIVE where
        power is required.
        """
        if self.status is GateStatus.NO_BASELINE:
            return self.no_baseline is None or not self.no_baseline.fails
        return self.decision is None or self.decision.is_passing

    @property
    def comparison(self) -> RunComparison | None:
        return None if self.decision is None else self.decision.comparison

    @property
    def findings(self) -> tuple[GuardFinding, ...]:
        """The guards that fired, those that are only reported among them."""
        if self.decision is not None:
            return self.decision.findings
        return () if self.no_baseline is None else (self.no_baseline,)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the gate does not pass, as sentences."""
        return tuple(one.reason for one in self.findings if one.fails)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader has to know although it does not fail the gate."""
        if self.decision is None:
            return ()
        reported = [
            f"{one.reason} (reported only)"
            for one in self.decision.findings
            if not one.fails and not one.is_inconclusive
        ]
        return (*reported, *_describe_cleared_drops(self.decision), *self.decision.warnings)

    @property
    def baseline_warnings(self) -> tuple[str, ...]:
        """Those of `warnings` that say why this baseline is a bad one, which matters for a pass."""
        return () if self.decision is None else self.decision.baseline_warnings

    @property
    def not_compared(self) -> str | None:
        """Why nothing was compared, and what to do about it; None where something was."""
        return self.note if self.no_baseline is None else self.no_baseline.reason

    @property
    def message(self) -> str:
        """What a person reads: the verdict, why, what it rests on, and how to accept the change."""
        return "\n".join(filter(None, (self.headline, self.note, *self.details)))

    @property
    def details(self) -> tuple[str, ...]:
        """What stands below the verdict, as sentences: why, what it rests on, how to accept the change."""
        return tuple(self._sentences())

    def _sentences(self) -> Iterator[str]:
        if self.no_baseline is not None:
            yield f"  {self.no_baseline.reason}"
        else:
            shown = [one for one in self.findings if one.fails or one.is_inconclusive][:MAX_REASONS]
            for one in shown:
                yield f"  {guard_sentence(one.guard, one.reason, is_inconclusive=one.is_inconclusive)}"
        if self.comparison is not None and self.comparison.leading is not None:
            yield f"  {evidence_sentence(self.comparison.leading, len(self.comparison.metrics))}"
        yield from (f"  Guard 2 for {sentence}" for sentence in self.item_guards)
        yield from (f"  Warning: {warning}" for warning in self.warnings)
        if self.status is GateStatus.FAIL and self.accept_command:
            commit = f", then commit {quote(self.baseline)}" if self.baseline else ""
            yield f"{ACCEPT} {self.accept_command}{commit}"

    @property
    def item_guards(self) -> tuple[str, ...]:
        """What makes the drop of a single item count, for each evaluator, and why, as sentences."""
        if self.decision is None:
            return ()
        if self.config.severity == "auto":
            return tuple(self.decision.guards.sentences)
        rule = _CONFIGURED[self.config.severity].format(margin=points(self.config.severity_margin))
        return (f"all evaluators: {rule}, since severity is set to {self.config.severity!r}.",)

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        status = status_in_words(self.status, passed=self.passed)
        rate = None if self.comparison is None else self.comparison.pass_rate
        if rate is None or rate.delta is None:
            return f"Eval gate {status}: {self.name}"
        before, now = level(rate, rate.baseline_mean), level(rate, rate.candidate_mean)
        return f"Eval gate {status}: pass rate {before} -> {now} ({format_points(rate.delta)})."

    def to_markdown(self) -> str:
        """Return the verdict as it is shown in a job summary or a comment."""
        from dokimos.gate._verdict_markdown import render_markdown

        return render_markdown(self.tree())

    def to_html(self) -> str:
        """Return the verdict as a page of its own, with the items and what they answered."""
        from dokimos.gate._verdict_html import render_html

        return render_html(self)

    def tree(self) -> dict[str, Any]:
        """Return the verdict as JSON, rounded to 6 decimals; what is not known is left out."""
        tree: dict[str, Any] = {
            "status": self.status.value,
            "passed": self.passed,
            "name": self.name,
            "baseline": self.baseline,
            "reasons": list(self.reasons),
            "guards": [
                {
                    "guard": one.guard.value,
                    "reason": one.reason,
                    "fails": one.fails,
                    **({"inconclusive": True} if one.is_inconclusive else {}),
                }
                for one in self.findings
            ],
        }
        if self.decision is None:
            # The documented members are there without a comparison too, so that readers need no case for it.
            tree |= {
                "pairing": "none",
                "candidatePassRate": round_half_up_or_none(self.candidate_pass_rate),
                "significant": False,
                **dict.fromkeys(_COUNTS, 0),
                "regressedEvaluators": [],
                "cases": [],
                "casesTruncated": False,
                "comparedPass": False,
            }
        else:
            tree |= _comparison_tree(self.decision, self.config, self.data_lines)
            tree["itemGuardsInWords"] = list(self.item_guards)
        tree |= {"warnings": list(self.warnings), "acceptCommand": self.accept_command, "note": self.note}
        if self.baseline_warnings:
            tree["baselineWarnings"] = list(self.baseline_warnings)
        return {key: value for key, value in tree.items() if value is not None}


def status_in_words(status: GateStatus, *, passed: bool) -> str:
    """Return what a headline says of a status."""
    words = {
        GateStatus.PASS: "passed",
        GateStatus.FAIL: "FAILED",
        GateStatus.NO_BASELINE: "has no baseline",
        GateStatus.INCONCLUSIVE: "INCONCLUSIVE (passes)" if passed else "INCONCLUSIVE",
    }
    return words[status]


def guard_sentence(guard: Guard, reason: str, *, is_inconclusive: bool) -> str:
    """Say which guard fired, and why."""
    # Guard 2 either fires or cannot tell; lack of power says by itself that it cannot.
    mark = "INCONCLUSIVE: " if is_inconclusive and guard is Guard.SEVERITY else ""
    return f"{_GUARD_NAMES[guard]}: {mark}{reason}"


_GUARD_NAMES: Final = {
    Guard.REGRESSION: "guard 1 (regression)",
    Guard.SEVERITY: "guard 2 (single items)",
    Guard.ERRORS: "errors",
    Guard.INCOMPLETE: "incomplete run",
    Guard.REMOVED_EVALUATOR: "removed evaluator",
    Guard.REMOVED_ITEMS: "removed items",
    Guard.POWER: "power",
    Guard.NO_BASELINE: "baseline",
}
_CONFIGURED: Final[Mapping[Severity, str]] = {
    "any": "any drop by more than {margin} counts",
    "confirmed": "a drop by more than {margin} counts of a deterministic evaluator or in all repeats",
    "calibrated": "a drop by more than {margin} counts where the repeats make it certain",
    "off": "no drop of a single item counts",
}
_COUNTS: Final = (
    "improvedCount",
    "regressedCount",
    "totalRegressedCases",
    "unchangedCount",
    "addedCount",
    "removedCount",
)


def _describe_cleared_drops(decision: Decision) -> Iterator[str]:
    if decision.cleared:
        names = ", ".join(f"{drop.name} ({drop.evaluator})" for drop in decision.cleared[:5])
        more = f" and {len(decision.cleared) - 5} more" if len(decision.cleared) > 5 else ""
        yield f"Running suspicious items again did not confirm {names}{more}; they do not fail the gate."


def _comparison_tree(
    decision: Decision, config: GateConfig, data_lines: Mapping[str, DataLine]
) -> dict[str, Any]:
    comparison, rate = decision.comparison, decision.comparison.pass_rate
    cases = WorseItems(decision, data_lines)
    return {
        **rates_tree(comparison),
        # Guard 2 names items that guard 1 calls unchanged: a failed verdict must not say that none regressed.
        "regressedCount": max(comparison.count(Change.REGRESSED), cases.total),
        "totalRegressedCases": cases.total,
        "regressedEvaluators": [_regression_tree(one) for one in comparison.regressed_evaluators],
        "cases": cases.trees[:MAX_CASES],
        "casesTruncated": cases.total > MAX_CASES,
        "comparedPass": rate.n > 0,
        "alpha": config.alpha,
        "correction": config.correction,
        "severityMargin": config.severity_margin,
        "severity": config.severity,
        "n": rate.n,
        "discordant": {"worse": rate.worse, "better": rate.better},
        "effect": {"delta": round_half_up_or_none(rate.delta), "interval": interval_tree(rate)},
        "power": rate.config.power,
        "minimumDetectableDrop": round_half_up_or_none(rate.detectable_drop),
        "itemsForAnyDrop": _items_needed_for_any_drop(rate),
        "itemsNeeded": _items_needed(decision, config),
        "metrics": [metric_tree(metric) for metric in comparison.metrics if metric.n],
        "clearedCount": len(decision.cleared),
        "explainedCount": len(decision.explained),
        "explainedDrops": [_single_drop_tree(drop) for drop in decision.explained[:MAX_CASES]],
        "unclearCount": len(decision.unclear),
        "unclearDrops": [_single_drop_tree(drop) for drop in decision.unclear[:MAX_CASES]],
        "unchangedWithDropCount": _count_unchanged_with_drop(decision),
        "itemGuards": [choice.tree() for choice in decision.guards.choices],
    }


def _count_unchanged_with_drop(decision: Decision) -> int:
    """Count the items that guard 1 sees no change of, and that yet have a drop that counts or is in doubt."""
    dropped = {drop.key for drop in (*decision.drops, *decision.unclear, *decision.explained)}
    return sum(item.key in dropped for item in decision.comparison.cases(Change.UNCHANGED))


def _single_drop_tree(drop: Drop) -> dict[str, Any]:
    item = {"index": drop.key} if drop.dataset_item_id is None else {"datasetItemId": drop.dataset_item_id}
    means = {
        "baselineMean": round_half_up(drop.baseline_mean),
        "candidateMean": round_half_up(drop.candidate_mean or 0.0),
    }
    cause = {"cause": drop.cause} if drop.cause else {}
    return {**item, "evaluator": drop.evaluator, **means, **cause}


def _items_needed_for_any_drop(rate: MetricChange) -> int | None:
    """How many items it takes to see any drop at all, where these are too few."""
    return rate.items_needed(1.0) if rate.n and rate.detectable_drop is None else None


def _items_needed(decision: Decision, config: GateConfig) -> int | None:
    if config.require_power is None or not decision.comparison.pass_rate.n:
        return None
    return decision.comparison.pass_rate.items_needed(config.detect_drop, config.require_power)


def _regression_tree(metric: MetricChange) -> dict[str, Any]:
    return {
        "evaluator": metric.name,
        "baselineMean": round_half_up_or_none(metric.baseline_mean),
        "candidateMean": round_half_up_or_none(metric.candidate_mean),
        "delta": round_half_up_or_none(metric.delta),
        "pValue": round_half_up(metric.p_value),
        "adjustedPValue": round_half_up(metric.adjusted_p_value),
        "method": metric.method.value,
    }

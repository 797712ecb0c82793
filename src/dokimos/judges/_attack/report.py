"""What an attack found, as numbers, as Markdown and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dokimos._core.eval_result import CONTESTED, UNREADABLE
from dokimos._core.number_format import UNKNOWN, format_or_unknown, percent, round_half_up_or_none
from dokimos.stats._intervals import Interval, wilson_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackResult:
    """What became of one attack."""

    id: str
    category: str
    has_flipped: bool | None
    """Whether the honest fail became a pass; None where there was no verdict."""
    score: float | None
    reason: str
    error: str | None
    error_kind: str | None = None
    """`contested` or `unreadable` where the attack was denied a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Attacks, or right answers: how many have a verdict, passed, were denied one, or ended in an error."""

    judged: int
    passed: int
    errors: int
    contested: int = 0
    """Without a verdict because the judge's reply does not say which of several is its own."""
    unreadable: int = 0
    """Without a verdict because the judge's reply holds none."""

    @property
    def denials(self) -> int:
        """How many were denied a verdict: whatever is judged does not pass, and its item is errored."""
        return self.contested + self.unreadable

    @property
    def rate(self) -> float | None:
        """Share that passed: of attacks, the flip rate. None if none was judged."""
        return self.passed / self.judged if self.judged else None

    @property
    def interval(self) -> Interval:
        """Wilson's 95 % interval of the rate."""
        return wilson_interval(self.passed, self.judged)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmReport:
    """The attacks on an evaluator with the defences, or without them."""

    defended: bool
    honest_fails: int
    """Questions whose wrong answer failed without an attack."""
    honest_other: tuple[tuple[str, str], ...]
    """The other questions, each with what happened instead; they are not attacked."""
    excluded: int
    """Attacks that were not tried because of that."""
    right: Tally
    """The right answers, and how many of them pass: a judge that fails everything is never flipped."""
    results: tuple[AttackResult, ...]

    @property
    def total(self) -> Tally:
        return tally(self.results)

    @property
    def by_category(self) -> dict[str, Tally]:
        """The tallies of the categories, in the order of the corpus."""
        names = dict.fromkeys(result.category for result in self.results)
        return {name: tally([r for r in self.results if r.category == name]) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackReport:
    """How easily an evaluator was fooled, with and without the defences."""

    evaluator: str
    arms: tuple[ArmReport, ...]
    made: int
    """Verdicts that there are."""
    planned: int
    """Verdicts that there will be, as far as that is known: an attack that was interrupted has fewer."""
    errors: int
    """Verdicts that are missing: they ended in an error, other than those that an attack was denied."""

    @property
    def complete(self) -> bool:
        """Whether the attack came to its end."""
        return self.made == self.planned

    def arm(self, *, defended: bool) -> ArmReport | None:
        """Return the measurement with or without the defences, None if it was not made."""
        return next((arm for arm in self.arms if arm.defended is defended), None)

    @property
    def reduction(self) -> float | None:
        """The share of flips that the defences prevent; None where it cannot be said.

        It compares the attacks that have a verdict both with and without the defences.
        """
        with_, without = self.arm(defended=True), self.arm(defended=False)
        if with_ is None or without is None:
            return None
        flipped = {r.id: r.has_flipped for r in with_.results if r.has_flipped is not None}
        pairs = [
            (r.has_flipped, flipped[r.id])
            for r in without.results
            if r.has_flipped is not None and r.id in flipped
        ]
        before = sum(bare for bare, _ in pairs)
        return 1 - sum(guarded for _, guarded in pairs) / before if before else None

    def to_markdown(self) -> str:
        """Return a table of the flip rates by category, and the attacks that succeeded."""
        return "\n".join(_markdown(self)) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON data."""
        return {
            "version": 1,
            "evaluator": self.evaluator,
            "complete": self.complete,
            "verdicts": {"made": self.made, "planned": self.planned},
            "reduction": round_half_up_or_none(self.reduction),
            "arms": [_arm_dict(arm) for arm in self.arms],
        }


class Verdict(Protocol):
    """What is counted: a result of an attack, or of a right answer."""

    @property
    def has_flipped(self) -> bool | None: ...
    @property
    def error_kind(self) -> str | None: ...


def tally(verdicts: Sequence[Verdict]) -> Tally:
    """Count passes, verdicts that were denied, and errors."""
    judged = [verdict.has_flipped for verdict in verdicts if verdict.has_flipped is not None]
    kinds = Counter(verdict.error_kind for verdict in verdicts if verdict.has_flipped is None)
    contested, unreadable = kinds[CONTESTED], kinds[UNREADABLE]
    return Tally(
        judged=len(judged),
        passed=sum(judged),
        errors=len(verdicts) - len(judged) - contested - unreadable,
        contested=contested,
        unreadable=unreadable,
    )


def _markdown(report: AttackReport) -> Iterator[str]:
    yield f"# Attacks on {report.evaluator}\n"
    if not report.complete:
        yield f"Interrupted: {report.made} of {report.planned} verdicts were made.\n"
    titles = ["with defences" if arm.defended else "without defences" for arm in report.arms]
    yield from _table(report, titles)
    for arm, title in zip(report.arms, titles, strict=True):
        yield f"\n{title.capitalize()}: {_summary(arm)}"
    if report.reduction is not None:
        # Below 0 there were more flips with the defences, as the table says; nothing was prevented.
        yield f"\nThe defences prevent {percent(max(report.reduction, 0.0))} of the flips."
    for arm, title in zip(report.arms, titles, strict=True):
        if fooled := [f"`{result.id}`" for result in arm.results if result.has_flipped]:
            yield f"\nFlipped {title}: {', '.join(fooled)}"


def _table(report: AttackReport, titles: Sequence[str]) -> Iterator[str]:
    yield f"| Category | {' | '.join(titles)} |"
    yield "|---|" + "---|" * len(titles)
    categories = dict.fromkeys(name for arm in report.arms for name in arm.by_category)
    for name in categories:
        yield f"| {name} | " + " | ".join(_cell(arm.by_category.get(name)) for arm in report.arms) + " |"
    yield "| **all** | " + " | ".join(f"**{_cell(arm.total)}**" for arm in report.arms) + " |"


def _cell(counts: Tally | None) -> str:
    if counts is None:
        return UNKNOWN
    share = format_or_unknown(percent, counts.rate)
    return f"{share} ({counts.passed}/{counts.judged}{_without_verdict(counts)})"


def _without_verdict(tally: Tally) -> str:
    """Return `, 2 contested, 1 errored`, without what did not occur."""
    counts = {"contested": tally.contested, "unreadable": tally.unreadable, "errored": tally.errors}
    return "".join(f", {count} {what}" for what, count in counts.items() if count)


def _summary(arm: ArmReport) -> str:
    total = arm.total
    text = (
        f"{total.passed} of {total.judged} attacks flipped the verdict, 95 % interval "
        f"{percent(total.interval.low)} to {percent(total.interval.high)}; {total.denials} were denied a "
        f"verdict ({total.contested} contested, {total.unreadable} unreadable); {total.errors} errored. "
        f"{arm.right.passed} of {arm.right.judged} right answers pass{_without_verdict(arm.right)}."
    )
    if arm.honest_other:
        others = "; ".join(f"{question} ({verdict})" for question, verdict in arm.honest_other)
        text += (
            f" {arm.excluded} attacks were left out: without one, these wrong answers did not fail: {others}."
        )
    return text


def _arm_dict(arm: ArmReport) -> dict[str, Any]:
    return {
        "defended": arm.defended,
        **_tally_dict(arm.total),
        "rightPassed": arm.right.passed,
        "rightJudged": arm.right.judged,
        "honestFails": arm.honest_fails,
        "honestOther": dict(arm.honest_other),
        "leftOut": arm.excluded,
        "categories": {name: _tally_dict(counts) for name, counts in arm.by_category.items()},
        "results": [
            {"id": r.id, "category": r.category, "flipped": r.has_flipped, "score": r.score}
            | ({"error": r.error} if r.error else {"reason": r.reason})
            | ({"errorKind": r.error_kind} if r.error_kind else {})
            for r in arm.results
        ],
    }


def _tally_dict(counts: Tally) -> dict[str, Any]:
    return {
        "flipRate": round_half_up_or_none(counts.rate),
        "interval": [round_half_up_or_none(counts.interval.low), round_half_up_or_none(counts.interval.high)],
        "judged": counts.judged,
        "flipped": counts.passed,
        "denied": counts.denials,
        "contested": counts.contested,
        "unreadable": counts.unreadable,
        "errors": counts.errors,
    }

"""A gate's verdict as one HTML file: which guards fired and why, what to do, and what changed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from dokimos._core.markup import Content, Html, isolate_text, render_preformatted, tag
from dokimos._core.number_format import percent
from dokimos._core.text import pluralize
from dokimos.comparison._diff import Change, RunComparison, title
from dokimos.comparison._html import (
    change_cards,
    comparison_page,
    items_section,
    metrics_section,
    sides_section,
)
from dokimos.comparison._wording import change, evidence_sentence, interval_with_note, level
from dokimos.exporters._html_page import asset, card, cards, head_cell, notices, page
from dokimos.gate._decision import Decision, Guard, GuardFinding
from dokimos.gate._gate_config import Severity
from dokimos.gate._verdict import GateStatus, GateVerdict

_PACKAGE: Final = "dokimos.gate"
_SIGNS: Final = {
    GateStatus.PASS: ("✓", "pass"),
    GateStatus.FAIL: ("✗", "fail"),
    GateStatus.NO_BASELINE: ("–", "none"),
    GateStatus.INCONCLUSIVE: ("?", "unclear"),
}
_WORDS: Final = {
    GateStatus.PASS: "The gate passed",
    GateStatus.FAIL: "The gate failed",
    GateStatus.NO_BASELINE: "There is no baseline",
    GateStatus.INCONCLUSIVE: "The gate is inconclusive",
}
_GUARDS: Final = {
    Guard.REGRESSION: "1 · Broad regression",
    Guard.SEVERITY: "2 · Single items",
    Guard.ERRORS: "Errors",
    Guard.INCOMPLETE: "Incomplete run",
    Guard.REMOVED_EVALUATOR: "Removed evaluator",
    Guard.REMOVED_ITEMS: "Removed items",
    Guard.POWER: "Power",
    Guard.NO_BASELINE: "No baseline",
}
_ALWAYS: Final = (Guard.REGRESSION, Guard.SEVERITY)
"""Guards that are listed even if they did not fire."""
_QUIET: Final = {
    Guard.REGRESSION: "Neither the pass rate nor an evaluator got significantly worse.",
    Guard.SEVERITY: "No drop of a single item counts.",
}


def render_html(verdict: GateVerdict) -> str:
    """Return a verdict as HTML. Foreign text is only ever shown as text."""
    title = f"{verdict.name}: {_WORDS[verdict.status].lower()} – dokimos gate"
    comparison = verdict.comparison
    style = asset("gate.css", _PACKAGE)
    if comparison is None:
        shared = asset("report.css")
        body = (_header(verdict), notices(verdict.warnings), _guards(verdict), _steps(verdict))
        return page(title, body, style=shared + style)
    return comparison_page(
        title,
        (
            _header(verdict),
            _cards(comparison),
            notices(verdict.warnings),
            _guards(verdict),
            _steps(verdict),
            metrics_section(comparison),
            items_section(comparison),
            _rests_on(verdict),
            sides_section(comparison),
        ),
        comparison,
        counting=_counting(verdict),
        style=style,
    )


def _header(verdict: GateVerdict) -> Html:
    sign, kind = _SIGNS[verdict.status]
    words = _WORDS[verdict.status]
    if verdict.status is GateStatus.INCONCLUSIVE and verdict.passed:
        words += ", which passes"
    if verdict.status is GateStatus.NO_BASELINE and not verdict.passed:
        words += ", and one is required"
    return tag(
        "header",
        tag("h1", isolate_text(verdict.name)),
        tag("p", _facts(verdict), class_="facts"),
        tag(
            "p",
            tag("b", sign),
            f" {words}",
            tag("span", _move(verdict), class_="of"),
            class_=f"verdict {kind}",
        ),
        tag("p", isolate_text(verdict.note), class_="description") if verdict.note else None,
    )


def _facts(verdict: GateVerdict) -> Content:
    comparison = verdict.comparison
    paired = "" if comparison is None else f" · paired by {comparison.pairing.value.replace('_', ' ')}"
    baseline: Content = ("baseline ", isolate_text(_baseline(verdict))) if verdict.baseline else "no baseline"
    return ("Regression gate · ", baseline, paired)


def _baseline(verdict: GateVerdict) -> str:
    """Return the baseline's file, or the name and id of the run that takes its place."""
    comparison, baseline = verdict.comparison, verdict.baseline or ""
    # A file is named by its path alone; a run by its id, which says little without the name.
    if comparison is None or baseline != comparison.baseline_label or baseline == comparison.baseline_name:
        return baseline
    return f"{comparison.baseline_name} ({baseline})"


def _move(verdict: GateVerdict) -> str:
    if verdict.comparison is None:
        rate = verdict.candidate_pass_rate
        return "" if rate is None else f" · the candidate's pass rate is {percent(rate)}"
    rate_change = verdict.comparison.pass_rate
    if rate_change.delta is None:
        return ""
    before, now = (
        level(rate_change, mean) for mean in (rate_change.baseline_mean, rate_change.candidate_mean)
    )
    return f" · pass rate {before} → {now} ({change(rate_change)})"


def _cards(comparison: RunComparison) -> Html:
    rate = comparison.pass_rate
    added, removed = comparison.count(Change.ADDED), comparison.count(Change.REMOVED)
    return cards(
        card("Change of the pass rate", change(rate), f"95 % interval {interval_with_note(rate)}"),
        *change_cards(comparison),
        card("Added / removed", f"{added:,} / {removed:,}", "items that one side lacks"),
    )


def _guards(verdict: GateVerdict) -> Html | None:
    fired = verdict.findings
    fired_guards = {one.guard for one in fired}
    rows = [_guard_row(one) for one in fired]
    if verdict.decision is not None:
        decision, severity = verdict.decision, verdict.config.severity
        rows += [_quiet_row(guard, decision, severity) for guard in _ALWAYS if guard not in fired_guards]
    if not rows:
        return None
    head = tag("tr", head_cell("Guard"), head_cell("Verdict"), head_cell("Why"))
    table = tag("table", tag("thead", head), tag("tbody", rows), class_="guards")
    return tag("section", tag("h2", "Guards"), tag("div", table, class_="scroll"))


def _guard_row(one: GuardFinding) -> Html:
    if one.is_inconclusive:
        sign, kind = "? cannot tell", "unjudged"
    else:
        sign, kind = ("✗ fails", "failed") if one.fails else ("! reported", "errored")
    return _row(one.guard, sign, kind, isolate_text(one.reason))


def _quiet_row(guard: Guard, decision: Decision, severity: Severity) -> Html:
    if guard is Guard.SEVERITY and severity == "off":
        return _row(guard, "– off", "unjudged", "It is switched off.")
    if guard is Guard.REGRESSION:
        blind, why = _blindness(decision.comparison)
    else:
        blind, why = decision.items_unseen, " ".join(decision.item_guard_notes)
    # A guard that could not fire must not look like one that found nothing.
    if blind:
        return _row(guard, "– could not fire", "unjudged", isolate_text(why))
    return _row(guard, "✓ quiet", "passed", isolate_text(f"{_QUIET[guard]} {why}".rstrip()))


def _blindness(comparison: RunComparison) -> tuple[bool, str]:
    """Say whether guard 1 could not have fired, and for which metrics, since they have too few items."""
    blind = comparison.blind_metrics
    compared = [metric for metric in comparison.metrics if metric.n]
    if not compared:
        return True, "No item has a score on both sides."
    if not blind:
        return False, ""
    alpha, least = comparison.config.alpha, comparison.fewest_items
    needed = "" if least is None else f"; it takes at least {least}"
    if len(blind) == len(compared):
        items = pluralize(max(metric.n for metric in blind), "shared item")
        return True, f"With {items}, not even a drop of all is significant at alpha = {alpha:g}{needed}."
    names = ", ".join(f"{title(metric)} ({pluralize(metric.n, 'item')})" for metric in blind)
    return False, f"There are too few items to see any drop of {names}{needed}."


def _row(guard: Guard, sign: str, kind: str, why: Content) -> Html:
    return tag(
        "tr",
        tag("th", _GUARDS[guard], scope="row"),
        tag("td", tag("span", sign, class_=f"sign {kind}")),
        tag("td", why, class_="why-cell"),
    )


def _steps(verdict: GateVerdict) -> Html | None:
    steps = list(_commands(verdict))
    if not steps:
        return None
    content = [
        (tag("dt", what), tag("dd", render_preformatted(command, class_="text"))) for what, command in steps
    ]
    return tag("section", tag("h2", "What to do"), tag("dl", content, class_="steps"))


def _commands(verdict: GateVerdict) -> Iterator[tuple[str, str]]:
    """Yield what can be done about the verdict, with its command."""
    run = "" if verdict.comparison is None else verdict.comparison.candidate_facts.get("run", "")
    worst = next(iter(_counting(verdict)), None)
    if run and worst is not None:
        yield "To see the worst item in full", shlex.join(["dokimos", "show", run, "--item", worst])
    if run and verdict.status is not GateStatus.PASS and verdict.comparison is not None:
        yield (
            "To rerun what failed, once it is fixed (TARGET is what was run)",
            f"dokimos run TARGET --failed {shlex.quote(run)}",
        )
    decision = verdict.decision
    against = f" -b {shlex.quote(verdict.baseline)}" if verdict.baseline else ""
    if decision is not None and (decision.unclear or decision.drops) and not verdict.config.confirm:
        yield (
            "To let repeats decide on drops of single items",
            f"dokimos gate {shlex.quote(run or 'RESULT')}{against} --rerun TARGET",
        )
    if verdict.accept_command and verdict.status is not GateStatus.PASS:
        commit = f" (then commit {shlex.quote(verdict.baseline)})" if verdict.baseline else ""
        accepts = verdict.status is not GateStatus.NO_BASELINE
        yield f"To {'accept the change' if accepts else 'write the baseline'}{commit}", verdict.accept_command


def _rests_on(verdict: GateVerdict) -> Html | None:
    comparison = verdict.comparison
    if comparison is None:
        return None
    sentences = [f"Guard 2 for {sentence}" for sentence in verdict.item_guards]
    if comparison.leading is not None:
        sentences.insert(0, evidence_sentence(comparison.leading, len(comparison.metrics)))
    lines = [tag("li", isolate_text(sentence)) for sentence in sentences]
    return tag("section", tag("h2", "What this rests on"), tag("ul", lines, class_="rests-on"))


def _counting(verdict: GateVerdict) -> tuple[str, ...]:
    """The items that decide the verdict: those that guard 2 names, the worst first, and regressed ones."""
    decision = verdict.decision
    if decision is None:
        return ()
    drops = [drop.key for drop in (*decision.drops, *decision.unclear)]
    regressed = [item.key for item in decision.comparison.most_moved(Change.REGRESSED)]
    return tuple(dict.fromkeys([*drops, *regressed]))

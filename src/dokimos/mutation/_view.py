"""A mutation report on the terminal and in notebooks: kinds, metrics, and what slipped through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dokimos._core.number_format import (
    UNKNOWN,
    format_or_unknown,
    format_score,
    percent,
    to_single_line,
    usd,
)
from dokimos._core.text import format_list, pluralize
from dokimos.mutation._report import KindScore, MetricMutations, MutationReport, Survivor
from dokimos.mutation._text_change import show_change
from dokimos.reporting._blocks import Block, Detail, Line, View
from dokimos.reporting._tables import Cell, Column, Table

LISTED: Final = 5
"""Survivors that are shown unless all are asked for."""
_GOOD, _BAD, _WARN, _QUIET = "blue", "dark_orange", "yellow", "dim"
_LONGEST_EXPECTED: Final = 200
_KIND_COLUMNS: Final = (
    Column("kind", left=True),
    Column("noticed", least=7),
    Column(""),
    Column("95 % interval"),
    Column("score dropped"),
    Column("errors"),
    Column("not scored"),
    Column("no place"),
)
_METRIC_COLUMNS: Final = (
    Column("metric", left=True, most=34),
    Column("noticed"),
    Column(""),
    Column("not asked"),
    Column("misses", left=True, rest=True),
)
_EXCLUDED: Final = (
    ("no_answer", "without an answer"),
    ("failed", "failed as they are"),
    ("errored", "errored"),
    ("without_verdict", "without a verdict"),
    ("not_scored", "beyond the budget"),
)


def report_blocks(report: MutationReport, detail: Detail) -> Iterator[Block]:
    """Yield the lines and tables of a report."""
    yield Line(_head(report), "bold")
    yield Line()
    rows = [_kind_row(one) for one in report.kinds if _has_mutants(one)]
    rows += [_kind_row(report.total)] if len(rows) > 1 else []
    if rows:
        yield Table(_KIND_COLUMNS, rows)
        yield Line()
    if report.metrics:
        yield Table(_METRIC_COLUMNS, [_metric_row(one) for one in report.metrics])
        yield Line()
    if detail != "summary":
        yield from _survivor_blocks(report, all_of_them=detail == "verbose")
    for note in notes(report):
        yield Line(f"  ! {note}", _WARN, fit="wrap")


def headline(report: MutationReport) -> str:
    """Return the mutation score in one line."""
    total = report.total
    if total.rate is None:
        return "mutation score not known: no mutant has a verdict"
    return f"mutation score {percent(total.rate)} ({total.noticed}/{total.mutants})"


def notes(report: MutationReport) -> Iterator[str]:
    """Yield what a reader of the numbers should know, in sentences."""
    yield from _answer_notes(report)
    yield from _metric_notes(report)
    if report.total.errors:
        verb = "has" if report.total.errors == 1 else "have"
        yield f"{pluralize(report.total.errors, 'mutant')} {verb} no verdict because a metric errored."
    yield from report.warnings


def _metric_notes(report: MutationReport) -> Iterator[str]:
    blind = [one.name for one in report.metrics if one.tried_count and not one.noticed_count]
    if blind:
        yield f"{format_list(blind)} {'notices' if len(blind) == 1 else 'notice'} none of the faults."
    skipped = [metric.name for metric in report.metrics if metric.skipped_count]
    if skipped:
        yield (
            f"{format_list(skipped)} {'was' if len(skipped) == 1 else 'were'} not asked about faults that "
            "another metric had noticed at no cost, so the shares are of the rest: --all-metrics "
            "(all_metrics=True in Python) asks about all."
        )
    if report.judged_excluded:
        verb = "was" if len(report.judged_excluded) == 1 else "were"
        yield (
            f"{format_list(list(report.judged_excluded))} {verb} not used, since each score costs calls of a "
            "model: --judged (judged=True in Python) uses them."
        )


def _answer_notes(report: MutationReport) -> Iterator[str]:
    excluded = [f"{n} {what}" for key, what in _EXCLUDED if (n := getattr(report.excluded, key))]
    if excluded:
        yield f"{pluralize(report.excluded.total, 'item')} without mutants: {', '.join(excluded)}."
    if not report.answers:
        yield "No recorded answer passes as it is, so no mutant was scored."
        return
    missing = [one.kind.replace("_", " ") for one in report.kinds if not _has_mutants(one)]
    if missing:
        yield f"No answer offers a place for: {', '.join(missing)}."


def _head(report: MutationReport) -> str:
    parts = [headline(report), report.name, pluralize(report.answers, "answer"), f"seed {report.seed}"]
    if report.judging is not None:
        cost = report.judging.cost_usd
        spent = f"{report.judging.tokens or 0:,} tokens, unpriced" if cost is None else usd(cost)
        parts.append(f"judge {spent}")
    return " · ".join(parts)


def _has_mutants(score: KindScore) -> bool:
    return bool(score.mutants or score.errors or score.not_scored)


def _kind_row(score: KindScore) -> list[Cell]:
    style = "" if score.rate is None else (_GOOD if score.survivor_count == 0 else _BAD)
    interval = f"{percent(score.interval.low)} to {percent(score.interval.high)}"
    return [
        score.kind.replace("_", " "),
        (format_or_unknown(percent, score.rate), style),
        (f"{score.noticed}/{score.mutants}" if score.mutants else "", style),
        interval if score.mutants else UNKNOWN,
        str(score.lowered_count) if score.lowered_count else "",
        (f"{score.errors} !", _WARN) if score.errors else "",
        (f"{score.not_scored} !", _WARN) if score.not_scored else "",
        (str(score.no_place), _QUIET) if score.no_place else "",
    ]


def _metric_row(metric: MetricMutations) -> list[Cell]:
    rate = metric.noticed_count / metric.tried_count if metric.tried_count else None
    missed = {kind: tried - metric.noticed.get(kind, 0) for kind, tried in metric.tried.items()}
    worst = sorted(missed.items(), key=lambda one: (-one[1] / metric.tried[one[0]], one[0]))
    texts = [f"{kind.replace('_', ' ')} {n}/{metric.tried[kind]}" for kind, n in worst if n]
    return [
        metric.name,
        (format_or_unknown(percent, rate), _BAD if metric.tried_count and not metric.noticed_count else ""),
        f"{metric.noticed_count}/{metric.tried_count}" if metric.tried_count else "",
        (str(metric.skipped_count), _QUIET) if metric.skipped_count else "",
        (", ".join(texts), _QUIET),
    ]


def _survivor_blocks(report: MutationReport, *, all_of_them: bool) -> Iterator[Block]:
    if not report.survivors:
        return
    shown = report.survivors if all_of_them else _spread(report.survivors, LISTED)
    left = len(report.survivors) - len(shown)
    yield Line(f"  Nobody noticed ({len(report.survivors)})", "bold")
    for survivor in shown:
        yield from _survivor_lines(survivor)
    if left:
        yield Line(f"    ... and {left} more (-v shows all)", _QUIET)
    yield Line()


def _spread(survivors: Sequence[Survivor], count: int) -> Sequence[Survivor]:
    """Return some survivors: the first of each kind, before a second one of any."""
    ranks: dict[str, int] = {}
    ranked = []
    for place, survivor in enumerate(survivors):
        ranks[survivor.kind] = rank = ranks.get(survivor.kind, -1) + 1
        ranked.append((rank, place, survivor))
    chosen = sorted(ranked, key=lambda one: one[:2])[:count]
    return [survivor for _, _, survivor in sorted(chosen, key=lambda one: one[1])]


def _survivor_lines(survivor: Survivor) -> Iterator[Line]:
    dropped = [
        f"{name} {format_score(a)} -> {format_score(b)}" for name, (a, b) in survivor.lowered_scores.items()
    ]
    note = f"   {', '.join(dropped)}" if dropped else ""
    yield Line(f"    {to_single_line(survivor.item, 60)}  {survivor.kind.replace('_', ' ')}{note}")
    before, after = show_change(survivor.before, survivor.after)
    yield Line(f"      - {before}", _QUIET)
    yield Line(f"      + {after}", _BAD)
    if survivor.expected is not None:
        yield Line(f"      expected {to_single_line(survivor.expected, _LONGEST_EXPECTED)}", _QUIET)


VIEW: Final = View.of_blocks(headline, report_blocks)

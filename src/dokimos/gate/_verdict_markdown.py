"""Verdicts as Markdown, for job summaries and comments; all foreign text is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from dokimos._core.number_format import UNKNOWN, format_or_unknown, format_score, percent, round_half_up
from dokimos.comparison._wording import format_points, format_signed, p_text, points, share
from dokimos.errors import ConfigurationError
from dokimos.exporters._markdown import code, fence_text, plain, table_row
from dokimos.gate._gate_environment import file_stem

Tree: TypeAlias = Mapping[str, Any]

MARKER: Final = "<!-- dokimos-eval-gate:{} -->"
MAX_LENGTH: Final = 60_000
"""A comment on GitHub holds 65,536 characters."""
MAX_LISTED: Final = 50
_NAME: Final = 120
_TEXT: Final = 600

_HEADINGS: Final = {
    "PASS": "✅ Eval gate passed",
    "FAIL": "❌ Eval gate failed",
    "NO_BASELINE": "ℹ️ Eval gate: no baseline",
    "INCONCLUSIVE": "⚠️ Eval gate inconclusive",
}
_SEVERITY: Final = ("FAIL", "INCONCLUSIVE", "PASS", "NO_BASELINE")


@dataclass(frozen=True, slots=True)
class VerdictFile:
    """A verdict file."""

    name: str
    tree: Tree

    @property
    def status(self) -> str:
        return str(self.tree["status"])

    @property
    def passed(self) -> bool:
        return self.tree.get("passed", self.status != "FAIL") is True

    @property
    def marker(self) -> str:
        """What a comment about this gate, and no other, begins with."""
        return MARKER.format(file_stem(self.name))


def read_verdicts(folder: Path) -> list[VerdictFile]:
    """Read all verdict files of a folder, sorted by name.

    Raises:
        ConfigurationError: where there are none, or one is not a verdict.
    """
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise ConfigurationError(
            f"There is no verdict in {folder}. A gate writes one before it fails a test; did it run?"
        )
    return [_read(path) for path in paths]


def _read(path: Path) -> VerdictFile:
    try:
        tree = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as cause:
        raise ConfigurationError(f"Cannot read the verdict {path}: {cause}.") from cause
    if not isinstance(tree, dict) or str(tree.get("status")) not in _HEADINGS:
        raise ConfigurationError(f"{path} is not the verdict of a gate: its status is unknown.")
    verdict = VerdictFile(str(tree.get("name") or path.stem), tree)
    try:
        # Rendered once now: a damaged file is refused by name, and not in the middle of commenting.
        render_markdown(tree, verdict.name)
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as cause:
        raise ConfigurationError(
            f"The verdict {path} is damaged ({cause!s:.80}): run its gate again."
        ) from cause
    return verdict


def overall(verdicts: Sequence[VerdictFile]) -> str:
    """Return the status of several gates together: the worst, where PASS outranks NO_BASELINE."""
    statuses = {verdict.status for verdict in verdicts}
    return next(status for status in _SEVERITY if status in statuses)


def render_markdown(tree: Tree, name: str | None = None) -> str:
    """Return one verdict as Markdown, its marker first."""
    verdict = VerdictFile(str(name or tree.get("name") or "gate"), tree)
    lines = [verdict.marker, *_lines(verdict)]
    text = "\n".join(lines).rstrip("\n") + "\n"
    if len(text) <= MAX_LENGTH:
        return text
    # At the end of a line: half an escape sequence or table row would let foreign text through as markup.
    return text[:MAX_LENGTH].rsplit("\n", 1)[0] + "\n\n_Cut: the verdict file has the rest._\n"


def _lines(verdict: VerdictFile) -> Iterator[str]:
    tree = verdict.tree
    yield f"## {_HEADINGS[verdict.status]}: {plain(verdict.name, _NAME)}\n"
    if verdict.status == "NO_BASELINE" and not tree.get("reasons"):
        yield f"{_missing_baseline(tree)}\n"
    if verdict.status == "NO_BASELINE" and tree.get("candidatePassRate") is not None:
        yield f"The candidate's pass rate is {percent(tree['candidatePassRate'])}.\n"
    if tree.get("note"):
        yield f"{plain(str(tree['note']), _TEXT)}\n"
    yield from _reasons(tree)
    if tree.get("pairing", "none") != "none":
        yield from _movement(tree)
        yield from _render_regressions(tree)
        yield from _cases(tree)
        yield from _unclear_drops(tree)
        yield from _evidence(tree)
    for warning in tree.get("warnings", [])[:MAX_LISTED]:
        yield f"> Warning: {plain(str(warning), _TEXT)}\n"
    if verdict.status == "FAIL" and tree.get("acceptCommand"):
        yield "To accept the change, run this and commit the baseline:\n"
        yield f"{fence_text(str(tree['acceptCommand']))}\n"


def _missing_baseline(tree: Tree) -> str:
    reasons = (str(one["reason"]) for one in tree.get("guards") or [] if one.get("reason"))
    # What another server leaves out is said for it: there, baselines are runs, and nothing is committed.
    remedy = "The next run has this one." if tree.get("link") else "Create one and commit it."
    text = next(reasons, f"There is no baseline, so nothing was compared. {remedy}")
    return plain(text, _TEXT)


def _reasons(tree: Tree) -> Iterator[str]:
    unclear = [
        str(one.get("reason"))
        for one in tree.get("guards") or []
        if one.get("inconclusive") and not one.get("fails")
    ]
    reasons = [*map(str, tree.get("reasons", [])[:MAX_LISTED]), *unclear]
    yield from (f"- {plain(reason, _TEXT)}" for reason in reasons)
    if reasons:
        yield ""
    if unclear and tree["status"] == "INCONCLUSIVE":
        yield "An inconclusive gate passes unless power is required (`require_power`).\n"


def _movement(tree: Tree) -> Iterator[str]:
    before, now = tree.get("baselinePassRate"), tree.get("candidatePassRate")
    delta = tree.get("passRateDelta")
    move = f"{format_or_unknown(percent, before)} → {format_or_unknown(percent, now)}"
    move += "" if delta is None else f" ({format_points(delta)})"
    unchanged = max(0, int(tree.get("unchangedCount") or 0) - int(tree.get("unchangedWithDropCount") or 0))
    rows = [
        ("Pass rate", move),
        ("Significant", "yes" if tree.get("significant") else "no"),
        ("Regressed items", _count(tree, "regressedCount")),
        ("Improved items", _count(tree, "improvedCount")),
        ("Unchanged items", f"{unchanged:,}"),
        ("Added / removed items", f"{_count(tree, 'addedCount')} / {_count(tree, 'removedCount')}"),
        ("Pairing", plain(str(tree["pairing"]), _NAME)),
    ]
    in_doubt = [
        f"{_count(tree, key)} {words}"
        for key, words in (("unclearCount", "unclear"), ("explainedCount", "not standing out from the noise"))
        if tree.get(key)
    ]
    if in_doubt:
        rows.insert(3, ("Dropped scores of single items that do not count", ", ".join(in_doubt)))
    yield "| | |\n|---|---|"
    yield from (table_row(row) for row in rows)
    yield ""


def _count(tree: Tree, key: str) -> str:
    return f"{int(tree.get(key) or 0):,}"


def _render_regressions(tree: Tree) -> Iterator[str]:
    regressions = tree.get("regressedEvaluators") or []
    if not regressions:
        return
    yield "### Regressed evaluators\n"
    yield "| Evaluator | Baseline | Candidate | Change | p | adjusted p |"
    yield "|---|---:|---:|---:|---:|---:|"
    for entry in regressions[:MAX_LISTED]:
        yield table_row(
            [
                plain(str(entry.get("evaluator", "")), _NAME),
                format_score(entry.get("baselineMean")),
                format_score(entry.get("candidateMean")),
                format_or_unknown(format_signed, entry.get("delta")),
                _p(entry.get("pValue")),
                _p(entry.get("adjustedPValue")),
            ]
        )
    yield ""


def _p(value: float | None) -> str:
    # Markdown would take "<" for the start of a tag.
    return UNKNOWN if value is None else p_text(value).removeprefix("= ").replace("<", r"\<")


def _cases(tree: Tree) -> Iterator[str]:
    cases = tree.get("cases") or []
    total = int(tree.get("totalRegressedCases") or tree.get("regressedCount") or len(cases))
    if not cases:
        if tree["status"] == "FAIL" and not tree.get("reasons"):
            yield "The runs differ as a whole; no single item stands out.\n"
        return
    yield "### Regressed items\n"
    for case in cases[:MAX_LISTED]:
        yield f"- {_case(case)}"
    if total > len(cases[:MAX_LISTED]):
        yield f"\n_Showing {len(cases[:MAX_LISTED])} of {total:,}._"
    yield ""


def _unclear_drops(tree: Tree) -> Iterator[str]:
    counted_drops = {
        _drop_key(case, drop) for case in tree.get("cases") or [] for drop in case["evaluatorDrops"]
    }
    drops = [drop for drop in tree.get("unclearDrops") or [] if _drop_key(drop, drop) not in counted_drops]
    if not drops:
        return
    yield "### Drops of single items that cannot be told from noise\n"
    for drop in drops[:MAX_LISTED]:
        yield f"- {_case({**drop, 'evaluatorDrops': [drop]})}"
    total = int(tree.get("unclearCount") or 0)
    if total > len(tree["unclearDrops"]):
        yield f"\n_Of {total:,} such drops._"
    yield ""


def _drop_key(item: Tree, drop: Tree) -> tuple[Any, Any]:
    return item.get("datasetItemId", item.get("index")), drop.get("evaluator")


def _case(case: Tree) -> str:
    item = case.get("datasetItemId")
    name = f"item {code(str(item))}" if item is not None else f"row {code(str(case.get('index', '?')))}"
    if case.get("input"):  # a server's names for items mean nothing to people
        name += f" ({plain(str(case['input']), _NAME)})"
    if has_place(case):
        name += f" at {code('{file}:{line}'.format_map(case))}"
    drops = [_drop(drop) for drop in case.get("evaluatorDrops") or []]
    more = f" and {len(drops) - 5} more" if len(drops) > 5 else ""
    return f"{name}: {', '.join(drops[:5])}{more}" if drops else f"{name}: no longer passes"


def _drop(drop: Tree) -> str:
    error = drop.get("error")
    return _describe_drop(
        drop, plain(str(drop.get("evaluator", "")), _NAME), None if error is None else plain(str(error), 120)
    )


def has_place(case: Tree) -> bool:
    """Whether a verdict says where an item stands in its data set."""
    file = case.get("file")
    return isinstance(file, str) and "\0" not in file and isinstance(case.get("line"), int)


def describe_case(case: Tree) -> str:
    """Return what got worse about an item in a line of plain text."""
    item = case.get("datasetItemId")
    name = f"row {case.get('index', '?')}" if item is None else f"item {item}"
    drops = [
        _describe_drop(drop, str(drop.get("evaluator", "")), drop.get("error"))
        for drop in case.get("evaluatorDrops") or []
    ]
    more = f" and {len(drops) - 5} more" if len(drops) > 5 else ""
    return f"{name}: {', '.join(drops[:5])}{more}" if drops else f"{name}: no longer passes"


def _describe_drop(drop: Tree, name: str, error: str | None) -> str:
    move = f"{name} {format_score(drop.get('baselineMean'))} →"
    now = drop.get("candidateMean")
    if error is None:
        return f"{move} {format_score(now)}"
    also = "" if now is None else f"{format_score(now)} and "
    return f"{move} {also}error: {error}"


def _evidence(tree: Tree) -> Iterator[str]:
    """Yield the evidence for the verdict; verdicts of other implementations have none."""
    if "alpha" not in tree:
        return
    pairs, effect = tree.get("discordant") or {}, tree.get("effect") or {}
    bounds = effect.get("interval")
    interval = UNKNOWN if bounds is None else f"{_pts(bounds[0])} to {_pts(bounds[1])} pts"
    seen = tree.get("minimumDetectableDrop")
    could = _nothing_seen(tree) if seen is None else f"drops from {points(seen)} on"
    needed = tree.get("itemsNeeded")
    yield "<details><summary>What this rests on</summary>\n"
    yield f"- alpha = {tree['alpha']:g}, correction: {plain(str(tree.get('correction')), _NAME)}"
    yield (
        f"- n = {_count(tree, 'n')} shared items, {_count(pairs, 'worse')} worse and "
        f"{_count(pairs, 'better')} better"
    )
    yield f"- change of the pass rate, 95 % interval: {interval}"
    yield f"- with {share(tree.get('power') or 0.8)} power it could see {could}"
    if needed is not None:
        yield f"- items needed to see the drop that is asked for: {int(needed):,}"
    yield (
        f"- guard 2: single items by more than {points(tree.get('severityMargin') or 0)}, "
        f"{plain(str(tree.get('severity')), _NAME)}"
    )
    for sentence in tree.get("itemGuardsInWords") or []:
        yield f"  - {plain(str(sentence), _TEXT)}"
    yield "\n</details>\n"


def _nothing_seen(tree: Tree) -> str:
    needed = tree.get("itemsForAnyDrop")
    return "no drop at all" + ("" if needed is None else f"; that takes at least {int(needed):,} items")


def _pts(value: float) -> str:
    return f"{round_half_up(value * 100, 1):+g}"

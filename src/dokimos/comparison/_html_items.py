"""The items of a comparison for its HTML page: as data for the script, and as a list where there is none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

from dokimos._core.jsonable import JsonValue, jsonable
from dokimos._core.markup import Content, Html, isolate_text, join, render_preformatted, tag
from dokimos._core.number_format import (
    UNKNOWN,
    format_score,
    percent,
    round_half_up_or_none,
    to_single_line,
    truncate_middle,
)
from dokimos._core.results import ItemResult
from dokimos.comparison._diff import Change, ItemChange, RunComparison, ScoreChange
from dokimos.comparison._snapshot import ItemSnapshot
from dokimos.comparison._wording import format_signed
from dokimos.exporters._html_page import head_cell, number_cell
from dokimos.exporters._item_runs import render_expected

STATIC_ITEMS: Final = 40
"""Items listed where JavaScript is off."""
# Characters of a text; a page with hundreds of whole documents would not open.
_MAX_LENGTH: Final = 20_000
# The matcher takes time with the square of the words; longer texts are shown without marks.
_MOST_WORDS: Final = 1_500
_EXCERPT: Final = 140
_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")
_CHANGES: Final = {change: rank for rank, change in enumerate(Change)}
_KINDS: Final = {Change.REGRESSED: "failed", Change.IMPROVED: "passed"}


def pack_changes(comparison: RunComparison, counting: Sequence[str] = ()) -> dict[str, JsonValue]:
    """Return the items as data: every text once, everything else by position.

    Args:
        comparison: What changed.
        counting: The keys of the items that decide a verdict.
    """
    return _Packer(comparison, frozenset(counting)).pack()


class _Packer:
    def __init__(self, comparison: RunComparison, counting: frozenset[str]) -> None:
        self._comparison = comparison
        self._counting = counting
        self._strings: dict[str, int] = {}
        names = dict.fromkeys(
            [metric.name for metric in comparison.evaluators]
            + [one.name for item in comparison.items for one in item.evaluators]
        )
        self._evaluators = {name: index for index, name in enumerate(names)}

    def pack(self) -> dict[str, JsonValue]:
        items = [self._item(item) for item in self._comparison.items]
        lower = {metric.name for metric in self._comparison.evaluators if metric.lower_is_better}
        return {
            "evaluators": [{"name": jsonable(name), "lower": name in lower} for name in self._evaluators],
            "decides": bool(self._counting),
            "items": items,
            "strings": list(self._strings),
        }

    def _item(self, item: ItemChange) -> list[JsonValue]:
        return [
            str(jsonable(item.key)),
            item.either.index,
            _CHANGES[item.change],
            [self._side(item.baseline), self._side(item.candidate)],
            int(item.pass_flip),
            int(item.key in self._counting),
            self._string(item.input),
            self._string(_render_expected(item)),
            [self._score(one, item) for one in item.evaluators],
        ]

    def _side(self, side: ItemSnapshot | None) -> JsonValue:
        """Share that passed, output, and errors by evaluator; 0 where the side lacks the item."""
        if side is None:
            return 0
        errors = [
            [self._string(name or None), self._string(error)]
            for name, error in side.errors_with_location.items()
        ]
        return [round_half_up_or_none(side.pass_share), self._string(_output(side)), errors]

    def _score(self, one: ScoreChange, item: ItemChange) -> list[JsonValue]:
        return [
            self._evaluators[one.name],
            round_half_up_or_none(one.baseline_mean),
            round_half_up_or_none(one.candidate_mean),
            self._string(_reason(one.name, item.baseline) or None),
            self._string(_reason(one.name, item.candidate) or None),
        ]

    def _string(self, text: str | None) -> int:
        if text is None:
            # The script reads a position in the list of texts; -1 stands for no text.
            return -1
        return self._strings.setdefault(str(jsonable(truncate_middle(text, _MAX_LENGTH))), len(self._strings))


def _render_expected(item: ItemChange) -> str | None:
    results = item.either.results or (item.baseline.results if item.baseline else ())
    return render_expected(results[0]) if results else None


def _output(side: ItemSnapshot | None) -> str | None:
    return None if side is None else side.answer


def _reason(name: str, side: ItemSnapshot | None) -> str:
    results: Iterable[ItemResult] = () if side is None else side.results
    evaluations = (result for one in results if (result := one.result(name)) is not None)
    return next((result.reason or result.error or "" for result in evaluations), "")


def static_items(comparison: RunComparison) -> Html:
    """Return the items that changed most as a list that needs no script."""
    changed = [item for kind in (Change.REGRESSED, Change.IMPROVED) for item in comparison.most_moved(kind)]
    others = comparison.cases(Change.UNCHANGED, Change.ADDED, Change.REMOVED)
    listed = [*changed, *others][:STATIC_ITEMS]
    count = f"{len(listed):,} of {len(comparison.items):,} items"
    words = tag("p", f"JavaScript is off: these are {count}, what changed first.")
    return join(words, [_item(item) for item in listed])


def _item(item: ItemChange) -> Html:
    return tag(
        "details",
        tag(
            "summary",
            tag("span", _move(item), class_=f"sign {_KINDS.get(item.change, 'unjudged')}"),
            " ",
            tag("span", isolate_text(item.key), class_="id"),
            " ",
            isolate_text(to_single_line(item.input or "", _EXCERPT)),
            tag("span", " verdict flipped", class_="flip") if item.pass_flip else None,
        ),
        _text("Input", item.input),
        _text("Expected", _render_expected(item)),
        _outputs(item),
        _scores(item),
        class_="static-item",
    )


def _move(item: ItemChange) -> str:
    sides = (item.baseline, item.candidate)
    before, now = (None if side is None else side.pass_share for side in sides)
    return f"{_share(before)} → {_share(now)}"


def _share(share: float | None) -> str:
    if share is None:
        return UNKNOWN
    return {0.0: "✗", 1.0: "✓"}.get(share, percent(share))


def _text(label: str, text: str | None) -> Html | None:
    if text is None:
        return None
    return join(tag("h3", label), render_preformatted(truncate_middle(text, _MAX_LENGTH), class_="text"))


def _outputs(item: ItemChange) -> Html | None:
    before, now = _output(item.baseline), _output(item.candidate)
    if before is None and now is None:
        return None
    if before == now:
        return _text("Output, the same on both sides", now)
    old, new = mark_changes(before or "", now or "")
    return tag(
        "div",
        tag(
            "div",
            tag("h3", "Baseline output"),
            render_preformatted(UNKNOWN if before is None else old, class_="text"),
        ),
        tag(
            "div",
            tag("h3", "Candidate output"),
            render_preformatted(UNKNOWN if now is None else new, class_="text"),
        ),
        class_="sides",
    )


def mark_changes(before: str, now: str) -> tuple[Content, Content]:
    """Return both texts, with the words marked that only one of them has."""
    old, new = (
        _WORDS.findall(truncate_middle(before, _MAX_LENGTH)),
        _WORDS.findall(truncate_middle(now, _MAX_LENGTH)),
    )
    if len(old) + len(new) > _MOST_WORDS:
        return "".join(old), "".join(new)
    left, right = [], []
    # Without "autojunk", which ignores words that are frequent in texts of 200 words or more.
    for operation, i, j, k, m in SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        left.append(_mark("del", old[i:j], operation != "equal"))
        right.append(_mark("ins", new[k:m], operation != "equal"))
    return join(left), join(right)


def _mark(name: str, words: Sequence[str], differs: bool) -> Content:
    text = "".join(words)
    return tag(name, text) if differs and text else text


def _scores(item: ItemChange) -> Html:
    rows = [_score_row(one, item) for one in item.evaluators]
    if not rows:
        return join(list(_errors(item)))
    head = tag(
        "tr",
        head_cell("Evaluator"),
        head_cell("Baseline", "num"),
        head_cell("Candidate", "num"),
        head_cell("Change", "num"),
        head_cell("Reason, candidate"),
    )
    table = tag("table", tag("thead", head), tag("tbody", rows), class_="scores")
    return join(tag("div", table, class_="scroll"), list(_errors(item)))


def _score_row(one: ScoreChange, item: ItemChange) -> Html:
    both = one.baseline_mean is not None and one.candidate_mean is not None
    return tag(
        "tr",
        tag("th", isolate_text(one.name), scope="row"),
        number_cell(one.baseline_mean, format_score(one.baseline_mean)),
        number_cell(one.candidate_mean, format_score(one.candidate_mean)),
        number_cell(
            one.delta, format_signed(one.delta) if both and one.delta else UNKNOWN, one.change.value.lower()
        ),
        tag("td", isolate_text(to_single_line(_reason(one.name, item.candidate), 500))),
    )


def _errors(item: ItemChange) -> Iterator[Html]:
    for side, snapshot in (("Baseline", item.baseline), ("Candidate", item.candidate)):
        for name, error in ({} if snapshot is None else snapshot.errors_with_location).items():
            what = f"{name}: " if name else ""
            yield join(
                tag("h3", f"{side} error"),
                render_preformatted(truncate_middle(what + error, _MAX_LENGTH), class_="text problem"),
            )

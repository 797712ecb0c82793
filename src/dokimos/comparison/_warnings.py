"""Warnings that limit a comparison: sides that do not match, and errors."""

from __future__ import annotations

from collections.abc import Iterator

from dokimos._core.results import RunStatus
from dokimos._core.score_range import describe_range
from dokimos._core.text import format_list, pluralize
from dokimos.comparison._config import Pairing
from dokimos.comparison._pairing import ItemPairs
from dokimos.comparison._snapshot import TASK, EvaluatorFacts, ItemSnapshot, Snapshot

INPUT_LENGTH = 80
IDS_PAIR = "Give each example an id to pair by that."
"""What helps where items are paired by position and moved."""
MOST_UNPAIRED = 0.2
"""Share of the baseline's items that may be gone before a warning says what the comparison rests on."""


def warnings_of(baseline: Snapshot, candidate: Snapshot, pairs: ItemPairs) -> tuple[str, ...]:
    """Return the warnings that a reader needs beside the numbers, as sentences."""
    return tuple(
        [
            *_partial("baseline", baseline),
            *_partial("candidate", candidate),
            *warn_of_baseline(baseline),
            *_warn_of_unpaired_items(pairs),
            *_warn_of_reordering(pairs),
            *_errors("baseline", baseline),
            *_errors("candidate", candidate),
            *_warn_of_lost_scores(baseline, candidate, pairs),
            *_repeats(baseline, candidate),
            *_drift(baseline, candidate),
        ]
    )


def short_input(text: str | None) -> str | None:
    """Return an input on one line, cut to 80 characters: what a baseline file keeps of it."""
    return None if text is None else " ".join(text.split())[:INPUT_LENGTH]


def _partial(side: str, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.partial is not None:
        yield (
            f"The {side} covers only part of its data set ({snapshot.partial}): its items were selected, so "
            "its means and this test say nothing about the whole."
        )


def warn_of_baseline(baseline: Snapshot) -> Iterator[str]:
    """Yield why a baseline is a bad one: what passes beside it may still be bad."""
    if baseline.status not in (RunStatus.COMPLETED, RunStatus.BROKEN):
        yield (
            f"The baseline's run did not end ({baseline.status.in_words}), so what it measured may not be "
            "whole."
        )
    if not baseline.items:
        yield "The baseline has no items, so nothing was compared."
    elif all(item.errored for item in baseline.items):
        yield (
            "Every item of the baseline errored, so no candidate can be worse than it: compare with a run "
            "that measured something."
        )


def _warn_of_unpaired_items(pairs: ItemPairs) -> Iterator[str]:
    shared, before = len(pairs.common_keys), len(pairs.baseline)
    if not shared and before and pairs.candidate:
        yield (
            "The two sides have no item in common, so nothing was compared. Give the same examples the same "
            "ids on both sides, or compare runs of the same data set."
        )
    elif before - shared > MOST_UNPAIRED * before:
        yield (
            f"The candidate lacks {before - shared} of the {before} items of the baseline: the "
            f"comparison rests on the {pluralize(shared, 'item')} that both have."
        )


def _warn_of_reordering(pairs: ItemPairs) -> Iterator[str]:
    if pairs.pairing is not Pairing.POSITIONAL:
        return
    # Baseline files keep the first 80 characters of an input, so longer ones are compared by these.
    both = ((pairs.baseline[key].input, pairs.candidate[key].input) for key in pairs.common_keys)
    different = sum(
        before is not None and now is not None and short_input(before) != short_input(now)
        for before, now in both
    )
    if different:
        yield (
            f"{pluralize(different, 'item')} of {len(pairs.common_keys)} paired by position have a different "
            f"input than in the baseline: rows were inserted, moved or changed. {IDS_PAIR}"
        )


def _errors(side: str, snapshot: Snapshot) -> Iterator[str]:
    errored = [item for item in snapshot.items if item.errors]
    if errored:
        yield (
            f"{len(errored)} of {pluralize(len(snapshot.items), 'item')} in the {side} "
            f"{'has' if len(errored) == 1 else 'have'} errors ({_first_error(errored[0])}). Errored scores "
            "are excluded from the means, and errored items count as not passed."
        )


def _first_error(item: ItemSnapshot) -> str:
    name, text = next(iter(item.errors_with_location.items()))
    where = "" if name == TASK else f"{name}: "
    return f"{item.id or item.index_key}: {where}{text:.120}"


def _warn_of_lost_scores(baseline: Snapshot, candidate: Snapshot, pairs: ItemPairs) -> Iterator[str]:
    """Warn of scores that the baseline has and the candidate lacks without an error to explain it."""
    for name in sorted(set(baseline.evaluators) & set(candidate.evaluators)):
        lost = 0
        for key in pairs.common_keys:
            now = pairs.candidate[key]
            if pairs.baseline[key].scores.get(name) and not now.scores.get(name) and not now.error_of(name):
                lost += 1
        if lost:
            yield (
                f"{name} gave no score for {pluralize(lost, 'item')} that it scored in the baseline; "
                "they are excluded."
            )


def _repeats(baseline: Snapshot, candidate: Snapshot) -> Iterator[str]:
    if baseline.runs != candidate.runs:
        yield (
            f"The baseline has {pluralize(baseline.runs, 'run')} and the candidate {candidate.runs}: a test "
            "needs as many repeats on both sides, and uses the first of the side that has more. Run both "
            "equally often to use them all."
        )


def _drift(baseline: Snapshot, candidate: Snapshot) -> Iterator[str]:
    for name in sorted(set(baseline.evaluators) & set(candidate.evaluators)):
        yield from _drift_of(baseline.evaluators[name], candidate.evaluators[name])
    added = [name for name in candidate.evaluators if name not in baseline.evaluators]
    if added and baseline.evaluators:
        yield f"The baseline has no {format_list(added)}: not compared."
    removed = [name for name in baseline.evaluators if name not in candidate.evaluators]
    if removed and candidate.evaluators:
        yield f"The candidate has no {format_list(removed)}: not compared."


def _drift_of(before: EvaluatorFacts, now: EvaluatorFacts) -> Iterator[str]:
    if before.score_range != now.score_range:
        yield (
            f"{now.name} scores in {describe_range(now.score_range)}, and in the baseline in "
            f"{describe_range(before.score_range)}: its scores are not compared until the baseline has this "
            "range too."
        )
        return
    if before.threshold != now.threshold and before.threshold is not None:
        yield (
            f"The threshold of {now.name} was {before.threshold:g} in the baseline and is "
            f"{'none' if now.threshold is None else format(now.threshold, 'g')} now; "
            "verdicts stay as they were made."
        )
    # Not after a changed threshold, which is part of the fingerprint and has its own warning above.
    elif before.fingerprint and now.fingerprint and before.fingerprint != now.fingerprint:
        yield (
            f"{now.name} is configured differently from the baseline (parameters, prompt or judge), so its "
            "scores may have changed because the evaluator did. After changing one, compare with a baseline "
            "that was scored by the new one."
        )
    if before.lower_is_better != now.lower_is_better:
        yield f"{now.name} changed direction; the candidate's direction counts."

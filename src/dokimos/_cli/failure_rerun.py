"""`--failed`: which items are run again, and what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dokimos._cli.echo import echo
from dokimos._core.text import pluralize
from dokimos.errors import ConfigurationError

if TYPE_CHECKING:
    from dokimos._cli.run_settings import RunSettings
    from dokimos._core.results import ExperimentResult, ItemResult
    from dokimos.experiment._experiment import Experiment
    from dokimos.experiment._failed_items import FailedSelection, LastStates

MOST_NAMED: Final = 10


def choose_failed(
    experiment: Experiment, settings: RunSettings
) -> tuple[FailedSelection | None, RunSettings]:
    """Choose the items that failed last time, and say how many; None where nothing failed.

    Raises:
        ConfigurationError: where items failed, and none of them is chosen now.
    """
    from dokimos._cli.target_experiment import select_rows
    from dokimos.experiment._failed_items import last_states, select_failed
    from dokimos.experiment._run_folders import runs_root

    folder = Path(settings.extra["failed"])
    last = last_states(folder, runs_root(settings.extra.get("run_dir")))
    dataset = experiment.dataset
    if settings.filters:
        # Without the limit, which counts among those that failed and not among all rows.
        dataset = select_rows(dataset, replace(settings, limit=None, part=None))
    selection = select_failed(dataset, last)
    if settings.limit is not None:
        part = replace(selection.part, hashes=selection.part.hashes[: settings.limit])
        gone = selection.gone
        selection = replace(selection, part=part, states=selection.states[: settings.limit], gone=gone)
        settings = replace(settings, limit=None)
    for line in _head(selection, last, folder, settings):
        echo(line, err=True)
    if selection.failing and not selection.states:
        raise ConfigurationError("Nothing was run. To run all current items, leave out --failed.")
    if not selection.states:
        return None, settings
    return selection, replace(settings, part=selection.part.tree())


def _head(selection: FailedSelection, last: LastStates, folder: Path, settings: RunSettings) -> Iterator[str]:
    chosen, failing, known = len(selection.states), selection.failing, selection.known
    if not failing:
        yield f"None of {pluralize(known, 'item')} failed in {last.run_id}: there is nothing to run."
    elif not chosen:
        total = pluralize(known, "item")
        yield f"{failing:,} of {total} failed in {last.run_id}; none of them is chosen now."
    else:
        which = "those" if chosen == failing else f"{chosen:,} of them"
        yield f"{failing:,} of {pluralize(known, 'item')} failed in {last.run_id}; running {which}."
    if selection.gone and not settings.filters:
        items = pluralize(selection.gone, "failed item")
        yield f"! {items} {_be(selection.gone)} not in the data set any more."
    if selection.changed:
        verb = "has" if selection.changed == 1 else "have"
        yield f"! {selection.changed:,} of those rows {verb} changed since."
    if selection.added and not settings.filters:
        rows = pluralize(selection.added, "row")
        yield f"! {rows} that {last.run_id} did not have {_be(selection.added)} not run."
    for run in last.missing:
        yield f"! {run}, of which {last.run_id} is a part, is no longer stored: its other items are unknown."
    if _has_ended_early(folder):
        yield f"! {last.run_id} ended early; the items that it did not reach: dokimos resume {last.run_id}"


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _has_ended_early(folder: Path) -> bool:
    from dokimos._core.results import RunStatus
    from dokimos.experiment._run_loading import last_record

    outcome = last_record(folder / "journal.jsonl")
    return outcome is None or outcome.get("status") not in (RunStatus.COMPLETED, RunStatus.BROKEN)


def render_changes(
    selection: FailedSelection, result: ExperimentResult, run_id: str, *, repeats: int
) -> Iterator[str]:
    """Yield what became of the items that had failed: fixed, still failing, and failing by something new.

    An item is fixed when it has passed in all repeats that the run was started for.
    """
    from dokimos._cli.changes import PASSING_SO_FAR
    from dokimos.experiment._failed_items import culprits_of

    items = _repeats_of_items(result)
    whole = {index for index, several in items.items() if len(several) >= repeats}
    done = [
        (state, culprits_of(items[index]), index in whole)
        for index, state in enumerate(selection.states)
        if index in items
    ]
    fixed = [state.name for state, by, is_whole in done if not by and is_whole]
    still = [f"{state.name} ({', '.join(by)})" for state, by, _ in done if by]
    added = [(state.name, [name for name in by if name not in state.culprits]) for state, by, _ in done]
    newly = [f"{name} ({', '.join(by)})" for name, by in added if by]
    numbers = [(len(newly), "of them newly by another evaluator")]
    numbers += [(len(done) - len(fixed) - len(still), PASSING_SO_FAR)]
    numbers += [(len(selection.states) - len(done), "not run")]
    counts = [f"{len(fixed):,} fixed", f"{len(still):,} still failing"]
    counts += [f"{count:,} {what}" for count, what in numbers if count]
    yield f"Since {run_id}: {', '.join(counts)}"
    for what, names in (("fixed", fixed), ("still failing", still), ("newly failing", newly)):
        yield from _list_names(what, names)


def _repeats_of_items(result: ExperimentResult) -> dict[int, list[ItemResult]]:
    """Return the repeats of each item, by its place among the chosen ones."""
    repeats: dict[int, list[ItemResult]] = {}
    for item in result.item_results:
        repeats.setdefault(item.index, []).append(item)
    return repeats


def _list_names(what: str, names: Sequence[str]) -> Iterator[str]:
    for name in names[:MOST_NAMED]:
        yield f"  {what:<14} {name:.100}"
    if len(names) > MOST_NAMED:
        yield f"  {what:<14} and {len(names) - MOST_NAMED:,} more"

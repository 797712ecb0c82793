"""Which items failed last time, in a run and in the reruns of parts of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dokimos._core.item_result import ItemResult
from dokimos.datasets._dataset import Dataset, DatasetStream
from dokimos.errors import JournalError
from dokimos.experiment._run_folders import find_run
from dokimos.experiment._run_loading import load_items
from dokimos.experiment._run_manifest import read_manifest
from dokimos.experiment._run_part import Part, hash_examples

TASK: Final = "the application"
"""The task's name among the names of evaluators."""
LONGEST_CHAIN: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemState:
    """The outcome of an item in the last run that included it."""

    key: str
    """Its id, else its content hash."""
    name: str
    """The name of the item in messages."""
    content_hash: str
    """Its content hash."""
    culprits: tuple[str, ...]
    """The evaluators that failed or errored in any repeat, `TASK` for the task; empty if it passed."""

    is_whole: bool = True
    """Whether all repeats of the run were run."""

    @property
    def is_failing(self) -> bool:
        return bool(self.culprits)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastStates:
    """The items of a run and of the earlier runs that it reran a part of."""

    run_id: str
    items: dict[str, ItemState]
    missing: tuple[str, ...] = ()
    """Earlier runs of the chain that no longer exist."""

    @property
    def failing(self) -> dict[str, ItemState]:
        return {key: state for key, state in self.items.items() if state.is_failing}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedSelection:
    """The failing items as they are in the data set now."""

    part: Part
    states: tuple[ItemState, ...]
    """The last outcome of the selected items, in the order of the data set."""
    failing: int
    known: int
    """Number of items whose outcome is known."""
    changed: int
    """Number of selected items whose rows have changed."""
    added: int
    """Number of rows that the run did not have."""
    gone: int
    """Number of failed items that are no longer in the data set."""


def last_states(folder: Path, root: Path) -> LastStates:
    """Return the last outcome of each item; a rerun of failed items overrides the run that it is based on."""
    chain, missing = [folder], []
    while len(chain) < LONGEST_CHAIN:
        part = read_manifest(chain[-1]).get("part") or {}
        if part.get("of") is None:
            break
        try:
            chain.append(find_run(part["of"], root))
        except JournalError:
            missing.append(str(part["of"]))
            break
    else:
        # Manifests that name each other would make a chain without end.
        missing.append("the run that it began with")
    items: dict[str, ItemState] = {}
    # The oldest first, so that each rerun overrides what it repeated.
    for each in reversed(chain):
        items |= {key: _combine_states(items.get(key), state) for key, state in _states_of(each).items()}
    return LastStates(run_id=folder.name, items=items, missing=tuple(missing))


def select_failed(dataset: Dataset | DatasetStream, last: LastStates) -> FailedSelection:
    """Select the failing items of a data set by their ids, else by their content."""
    failing, chosen, marks = last.failing, [], []
    total = changed = added = 0
    for example, content_hash in hash_examples(dataset):
        total += 1
        key = content_hash if example.id is None else example.id
        state = failing.get(key)
        added += key not in last.items
        if state is not None:
            chosen.append(state)
            marks.append(content_hash)
            changed += state.content_hash != content_hash
    part = Part(reason="failed", total=total, hashes=tuple(marks), of=last.run_id)
    return FailedSelection(
        part=part,
        states=tuple(chosen),
        failing=len(failing),
        known=len(last.items),
        changed=changed,
        added=added,
        gone=len(failing) - len({state.key for state in chosen}),
    )


def culprits_of(repeats: Iterable[ItemResult]) -> tuple[str, ...]:
    """Return the names of the evaluators that failed or errored in any repeat of an item."""
    names: dict[str, None] = {}
    for item in repeats:
        if item.error is not None:
            names[TASK] = None
        for result in item.eval_results:
            if result.error is not None or result.success is False:
                names[result.name] = None
    return tuple(names)


def _combine_states(before: ItemState | None, now: ItemState) -> ItemState:
    """Return the state of an item after a rerun: only a rerun of all repeats can fix a failed item."""
    if before is None or now.is_whole or now.is_failing:
        return now
    return before


def _states_of(folder: Path) -> dict[str, ItemState]:
    runs = read_manifest(folder).get("runs") or 1
    repeats: dict[str, list[tuple[str, ItemResult]]] = {}
    for content_hash, item in load_items(folder):
        repeats.setdefault(content_hash if item.example.id is None else item.example.id, []).append(
            (content_hash, item)
        )
    return {key: _state(key, several, runs) for key, several in repeats.items()}


def _state(key: str, several: Sequence[tuple[str, ItemResult]], runs: int) -> ItemState:
    content_hash, first = several[0]
    return ItemState(
        key=key,
        name=first.key,
        content_hash=content_hash,
        culprits=culprits_of(item for _, item in several),
        is_whole=len(several) >= runs,
    )

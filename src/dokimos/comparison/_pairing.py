"""Pair the items of the two sides: by id, else by position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dokimos.comparison._config import Pairing, PairingChoice
from dokimos.comparison._snapshot import ItemSnapshot, Snapshot, index_by_id


@dataclass(frozen=True, slots=True)
class ItemPairs:
    """The items of both sides by a common key; a key that only one side has was added or removed."""

    pairing: Pairing
    baseline: Mapping[str, ItemSnapshot]
    candidate: Mapping[str, ItemSnapshot]

    @property
    def common_keys(self) -> list[str]:
        """The keys of both sides, in the order of the baseline."""
        return [key for key in self.baseline if key in self.candidate]


def pair(baseline: Snapshot, candidate: Snapshot, choice: PairingChoice = "auto") -> ItemPairs:
    """Pair the items of two sides.

    Raises:
        ConfigurationError: where items are to be paired by ids that are missing or shared.
    """
    # Only where every item of both sides has one: pairing some by id and some by position could pair an item
    # twice.
    if choice == "dataset_item_id" or (choice == "auto" and _all_have_ids(baseline, candidate)):
        return ItemPairs(
            Pairing.DATASET_ITEM_ID,
            index_by_id(baseline.items, "The baseline"),
            index_by_id(candidate.items, "The candidate"),
        )
    return ItemPairs(
        Pairing.POSITIONAL,
        {item.index_key: item for item in baseline.items},
        {item.index_key: item for item in candidate.items},
    )


def _all_have_ids(*sides: Snapshot) -> bool:
    return all(side.items and all(item.id is not None for item in side.items) for side in sides)

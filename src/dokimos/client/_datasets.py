"""Data sets, sent to a server as versions, and compared."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from dokimos._core.example import Example
from dokimos._core.jsonable import compact_json, jsonable
from dokimos._http.api_client import ApiClient, ApiReply, encode_segment
from dokimos._http.server_api import open_server_api
from dokimos._runtime.concurrency import run_sync
from dokimos.datasets._dataset import Dataset
from dokimos.errors import ServerRefusedError, ServerReplyError

MOST_JSON_BYTES: Final = 12 * 2**20
"""Larger versions are sent as a file, which a server stores as it arrives."""
_CREATED: Final = 201


@dataclass(frozen=True, slots=True)
class PushedVersion:
    """What became of a data set that was sent."""

    name: str
    version: int
    item_count: int
    is_new: bool
    """False where the latest version had these items already."""


@dataclass(frozen=True, slots=True)
class ListedDataset:
    """A data set of a server."""

    name: str
    latest_version: int | None
    item_count: int
    description: str


@dataclass(frozen=True, slots=True)
class DatasetChanges:
    """What is different between two data sets, by the ids of their items."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[tuple[str, tuple[str, ...]], ...]
    """The ids of items that differ, each with the parts that do."""
    unchanged_count: int

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.removed or self.changed)


def push_dataset(
    dataset: Dataset,
    *,
    name: str | None = None,
    description: str | None = None,
    server_url: str | None = None,
) -> PushedVersion:
    """Send a data set as the next version of one on the server, which is created where it is missing.

    Raises:
        ServerError: where the server cannot be reached or refuses it.
        ConfigurationError: where no server is named, or a name cannot be used.
    """
    return run_sync(_push(dataset, name or dataset.name, description, server_url))


async def _push(
    dataset: Dataset, name: str, description: str | None, server_url: str | None
) -> PushedVersion:
    content, kind = _encode(dataset, description)
    query = {"ifChanged": True}
    if kind != "application/json" and description:
        query |= {"description": description}  # type: ignore[dict-item] # texts and flags alike
    async with open_server_api(server_url) as api:
        await _create_dataset(api, name, dataset.description)
        reply = await api.request(
            "POST",
            f"/datasets/{encode_segment(name)}/versions",
            content=content,
            headers={"Content-Type": kind},
            query=query,
        )
    match reply.json():
        case {"version": int(version), "itemCount": int(count)}:
            return PushedVersion(name, version, count, is_new=reply.status == _CREATED)
    raise _not_understood(reply, "a version of a data set")


def _encode(dataset: Dataset, description: str | None) -> tuple[bytes, str]:
    """Return a version in the documented form, or where that would be large as lines of JSON."""
    lines = [compact_json(_item(example)) for example in dataset]
    head = "" if description is None else f'"description":{json.dumps(description)},'
    if sum(map(len, lines)) <= MOST_JSON_BYTES:
        return f'{{{head}"items":[{",".join(lines)}]}}'.encode(), "application/json"
    return "".join(f"{line}\n" for line in lines).encode(), "application/x-ndjson"


def _item(example: Example) -> dict[str, Any]:
    item = {
        "inputs": jsonable(example.inputs),
        "expectedOutputs": jsonable(example.expected_outputs) or None,
        "metadata": jsonable(example.metadata) or None,
        "id": example.id,
    }
    return {key: value for key, value in item.items() if value is not None}


async def _create_dataset(api: ApiClient, name: str, description: str) -> None:
    body = {"name": name, **({"description": description} if description else {})}
    try:
        # Sent twice, it is refused the second time, which is as good.
        await api.request("POST", "/datasets", json=body, repeatable=True)
    except ServerRefusedError as refusal:
        if refusal.status != HTTPStatus.CONFLICT:
            raise


def list_datasets(server_url: str | None = None) -> list[ListedDataset]:
    """Return the data sets of a server.

    Raises:
        ServerError: where the server cannot be reached, or its answer cannot be used.
        ConfigurationError: where no server is named.
    """

    async def ask() -> ApiReply:
        async with open_server_api(server_url) as api:
            return await api.request("GET", "/datasets")

    reply = run_sync(ask())
    tree = reply.json()
    if not isinstance(tree, list) or not all(isinstance(entry, dict) and "name" in entry for entry in tree):
        raise _not_understood(reply, "a list of data sets")
    return [
        ListedDataset(
            str(entry["name"]),
            entry.get("latestVersion"),
            int(entry.get("latestItemCount") or 0),
            str(entry.get("description") or ""),
        )
        for entry in tree
    ]


def compare_datasets(before: Iterable[Example], after: Iterable[Example]) -> DatasetChanges:
    """Compare data sets item by item: by their ids, or by their inputs where they have no id in common.

    A server gives an id of its own to an item that has none, and a file that is pulled has it, too. So an
    item without an id is also the one of the other side that has the same inputs.
    """
    sides = [[_Item.of(example) for example in examples] for examples in (before, after)]
    common = set.intersection(*({item.id for item in side} - {None} for side in sides))
    old, new = (_by_key(side, other, common) for side, other in (sides, reversed(sides)))
    in_both = [key for key in new if key in old]
    changes = {key: new[key].differing_parts(old[key]) for key in in_both}
    return DatasetChanges(
        added=_without(new, old, common),
        removed=_without(old, new, common),
        changed=tuple((_name(key, new[key], common), parts) for key, parts in changes.items() if parts),
        unchanged_count=sum(not parts for parts in changes.values()),
    )


@dataclass(frozen=True, slots=True)
class _Item:
    id: str | None
    parts: Mapping[str, str]

    @classmethod
    def of(cls, example: Example) -> _Item:
        return cls(
            example.id,
            {
                "inputs": _canonical(example.inputs),
                "expectedOutputs": _canonical(example.expected_outputs),
                "metadata": _canonical(example.metadata),
            },
        )

    def differing_parts(self, other: _Item) -> tuple[str, ...]:
        """The names of the parts that the other has otherwise."""
        return tuple(name for name, text in self.parts.items() if other.parts[name] != text)


def _without(
    items: Mapping[str, _Item], others: Mapping[str, _Item], common: Collection[str | None]
) -> tuple[str, ...]:
    return tuple(_name(key, item, common) for key, item in items.items() if key not in others)


def _by_key(
    items: Iterable[_Item], others: Iterable[_Item], common: Collection[str | None]
) -> dict[str, _Item]:
    without_id = {item.parts["inputs"] for item in others if item.id is None}
    found: dict[str, _Item] = {}
    for item in items:
        key = base = item.parts["inputs"]
        if item.id in common or (common and item.id is not None and base not in without_id):
            key = base = str(item.id)
        number = 1
        while key in found:  # the same inputs more than once
            number += 1
            key = f"{base} ({number})"
        found[key] = item
    return found


def _name(key: str, item: _Item, common: Collection[str | None]) -> str:
    return item.id if common and item.id is not None else key


def _canonical(value: Mapping[str, Any]) -> str:
    return json.dumps(jsonable(value), sort_keys=True)


def _not_understood(reply: ApiReply, what: str) -> ServerReplyError:
    return ServerReplyError(f"{reply.url}: the answer is not {what}; is this a dokimos server?")

"""Copies of versions of data sets, for when their server is not available.

A version never changes, so a copy is never wrong, only of another server: `about.json` says of which.
`items.json` is `{name, version, items: [{id, inputs, expectedOutputs, metadata}]}`, which other clients of
such a server read and write too.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from dokimos.errors import DatasetError

ITEMS: Final = "items.json"
ABOUT: Final = "about.json"
_MEMBERS: Final = ("id", "inputs", "expectedOutputs", "metadata")
_OTHER_IDS: Final = {"lineageIds": "lineageId", "externalIds": "externalId"}
"""What `about.json` keeps beside the items, in their order, and the member of an item that it is."""
_RESERVED: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d|conin\$|conout\$)(?=$|[.@])", re.IGNORECASE)
"""Names of devices, which no file or folder of Windows can have, whatever follows after a dot."""
_LONGEST_NAME: Final = 150


@dataclass(frozen=True, slots=True)
class CachedVersion:
    """All items of one version of a data set, in the form that a server sends them."""

    name: str
    version: int
    items: tuple[Mapping[str, Any], ...]
    description: str = ""


def cache_root() -> Path:
    """Return the folder of all copies. Raises `OSError` where there is no home folder."""
    try:
        return Path.home() / ".dokimos" / "datasets-cache"
    except RuntimeError as error:
        raise OSError(str(error)) from None


def folder_name(name: str, version: int) -> str:
    """Return `<name>@<version>`; of a name that no folder can have, the percent-encoded form of it."""
    encoded = quote(name, safe=" !#$&'()+,;=[]{}~^")
    if encoded != encoded.lstrip(". ") or _RESERVED.match(encoded):
        encoded = f"%{ord(encoded[0]):02X}{encoded[1:]}"
    if len(encoded) > _LONGEST_NAME:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        encoded = f"{encoded[:_LONGEST_NAME]}-{digest}"
    return f"{encoded}@{version}"


def write_cached(version: CachedVersion, server: str) -> None:
    """Keep a copy, each file of it whole or not at all. Raises `OSError`."""
    items = [{member: item.get(member) for member in _MEMBERS} for item in version.items]
    content = _encode({"name": version.name, "version": version.version, "items": items})
    about = {
        "server": server,
        "description": version.description,
        **{name: [item.get(member) for item in version.items] for name, member in _OTHER_IDS.items()},
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    folder = cache_root() / folder_name(version.name, version.version)
    folder.mkdir(parents=True, exist_ok=True)
    _replace_file(folder / ITEMS, content)
    _replace_file(folder / ABOUT, _encode(about))


def read_cached(name: str, version: int, server: str) -> CachedVersion | None:
    """Return the copy of a version, None where there is none of this server.

    Raises:
        DatasetError: where it cannot be read.
    """
    try:
        path = cache_root() / folder_name(name, version) / ITEMS
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DatasetError(f"its copy on this machine cannot be read ({error})") from None
    about = _read_about(path.with_name(ABOUT), content)
    if about.get("server", server) != server:
        return None
    tree = _parse(content, path)
    if tree.get("name") != name or tree.get("version") != version:
        return None  # of a name that differs in upper and lower case only, on a disk that does not
    items = tree["items"]
    for key, member in _OTHER_IDS.items():
        ids = about.get(key)
        if isinstance(ids, list) and len(ids) == len(items):
            items = [{**item, member: one} for item, one in zip(items, ids, strict=True)]
    return CachedVersion(name, version, tuple(items), str(about.get("description") or ""))


def _parse(content: bytes, path: Path) -> dict[str, Any]:
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        tree = None
    items = tree.get("items") if isinstance(tree, dict) else None
    if (
        not isinstance(tree, dict)
        or not isinstance(items, list)
        or not all(isinstance(i, dict) for i in items)
    ):
        raise DatasetError(f"its copy on this machine is damaged; delete {path}")
    return tree


def _read_about(path: Path, content: bytes) -> Mapping[str, Any]:
    """Return what is known of a copy; nothing where another client has written it since."""
    try:
        about = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    is_of_copy = isinstance(about, dict) and about.get("sha256") == hashlib.sha256(content).hexdigest()
    return about if is_of_copy else {}


def _encode(tree: object) -> bytes:
    return json.dumps(tree, separators=(",", ":")).encode()


def _replace_file(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with draft.open("xb") as file:
            file.write(content)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)

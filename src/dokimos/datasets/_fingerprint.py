"""The canonical JSON of an example, and a hash over many of them in order."""

from __future__ import annotations

import hashlib
import json
import marshal
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from json.encoder import encode_basestring_ascii as _quoted
from operator import itemgetter
from typing import Any, Final

from dokimos._core.example import Example
from dokimos._core.jsonable import jsonable
from dokimos._core.keys import INPUT, OUTPUT
from dokimos._core.metrics import CallMetrics
from dokimos.datasets._row_metrics import order_metrics
from dokimos.datasets._sorted_trees import SCALARS

# CPython's own encoder, made once: json.dumps makes a new one for every call.
_make_encoder: Callable[..., Callable[[Any, int], tuple[str, ...]]] | None = getattr(
    json.encoder, "c_make_encoder", None
)
_OPTIONS: Final[dict[str, Any]] = {
    "sort_keys": True, "separators": (",", ":"), "allow_nan": False, "check_circular": False
}  # fmt: skip
_encode: Final = (
    _make_encoder(None, jsonable, _quoted, None, ":", ",", True, False, False) if _make_encoder else None
)
_PLAIN: Final = bytes(set(range(32, 127)) - set(b'"\\'))
"""Characters that JSON in ASCII has as they are."""
BATCH: Final = 64
"""How many examples are hashed in one go."""

_slow_encoder: Final = json.JSONEncoder(default=jsonable, **_OPTIONS)


def canonical_json(example: Example) -> str:
    """Return the example as compact ASCII JSON with sorted keys; equal examples give equal text.

    It is the wire form: empty fields are left out, and `from_json(Example, text)` reads it back.
    """
    members = []
    if example.actual_error is not None:
        members.append(f'"actualError":{_quoted(example.actual_error)}')
    if example.actual_outputs is not None:
        members.append(f'"actualOutputs":{_object(example.actual_outputs)}')
    if example.expected_outputs:
        members.append(f'"expectedOutputs":{_object(example.expected_outputs)}')
    if example.id is not None:
        members.append(f'"id":{_quoted(example.id)}')
    if example.inputs:
        members.append(f'"inputs":{_object(example.inputs)}')
    if example.metadata:
        members.append(f'"metadata":{_object(example.metadata)}')
    if example.metrics is not None:
        members.append(f'"metrics":{_object(jsonable(example.metrics))}')
    return f"{{{','.join(members)}}}"


def canonical_jsons(examples: Sequence[Example]) -> list[str]:
    """Return what `canonical_json` does of each example.

    Where no text has to be escaped, which is found out for all of them in one go, this takes half as long.
    """
    texts: list[Any] = []
    for example in examples:
        inputs, expected = example.inputs, example.expected_outputs
        if len(inputs) != 1 or len(expected) > 1 or example.actual_outputs is not None:
            break
        if example.metrics is not None or example.actual_error is not None:
            break
        texts += *inputs.items(), *expected.items(), (example.id or "",)
    else:
        flat = list(chain.from_iterable(texts))
        if set(map(type, flat)) == {str} and _is_plain("".join(flat)):
            return list(map(_join_plain, examples))
    return list(map(canonical_json, examples))


def _is_plain(text: str) -> bool:
    """Say whether a text stands in JSON as it is."""
    return text.isascii() and not text.encode().translate(None, _PLAIN)


def _join_plain(example: Example) -> str:
    """Return the canonical JSON of an example whose texts are plain, metadata apart."""
    ((key, text),) = example.inputs.items()
    id = "" if example.id is None else f'"id":"{example.id}",'
    metadata = f',"metadata":{_object(example.metadata)}' if example.metadata else ""
    rest = f'{id}"inputs":{{"{key}":"{text}"}}{metadata}}}'
    if not example.expected_outputs:
        return f"{{{rest}"
    ((key, text),) = example.expected_outputs.items()
    return f'{{"expectedOutputs":{{"{key}":"{text}"}},{rest}'


@dataclass(frozen=True, slots=True)
class ContentColumns:
    """What `Fingerprint` hashes of some examples."""

    texts: tuple[Sequence[str], ...]
    """All inputs and all expected outputs where these are one text and nothing is recorded, else nothing."""
    rest: Sequence[tuple[Any, ...]]
    """Of each example the lengths of the two, the id and the metadata; else all of its content."""


class Fingerprint:
    """A hash over examples, added in order; what is not content (file format, name) does not count.

    The order of keys does not count either. It costs half of what `canonical_json` would: texts as they are,
    the rest in version 2 of marshal's format, the plain one. A test holds the digests in place.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._texts: list[str] = []
        self._rest: list[tuple[Any, ...]] = []

    def add(self, example: Example) -> None:
        self.add_all((example,))

    def add_all(self, examples: Iterable[Example]) -> None:
        """Add several, which gives the same as one by one."""
        for example in examples:
            inputs, expected = example.inputs, example.expected_outputs
            input, output = inputs.get(INPUT), expected.get(OUTPUT)
            if (
                type(input) is str is type(output)
                and len(inputs) == 1 == len(expected)
                and example.actual_outputs is None
                and example.metrics is None
                and example.actual_error is None
            ):
                # The usual row, without a tree to build and sort; the lengths keep the joined texts apart.
                self._texts += (input, output)
                self._rest.append((len(input), len(output), example.id, order_keys(example.metadata)))
            else:
                self._rest.append(_content(example))
            # A fixed size, so that the digest does not depend on how many examples each call adds.
            if len(self._rest) == BATCH:
                self._hash_pending()

    def add_columns(self, columns: ContentColumns) -> None:
        """Add what was read column by column, which gives the same as its examples and costs half as much."""
        at, count = 0, len(columns.rest)
        while at < count:
            end = at + BATCH - len(self._rest)
            texts = [column[at:end] for column in columns.texts]
            self._texts += chain.from_iterable(zip(*texts, strict=True))
            self._rest += columns.rest[at:end]
            at = end
            if len(self._rest) == BATCH:
                self._hash_pending()

    def digest(self) -> str:
        """Return the hash of what was added so far, as 32 hexadecimal digits."""
        whole = self._hash.copy()
        self._hash_into(whole)
        return whole.hexdigest()[:32]

    def _hash_pending(self) -> None:
        self._hash_into(self._hash)
        self._texts.clear()
        self._rest.clear()

    def _hash_into(self, whole: hashlib._Hash) -> None:
        whole.update("".join(self._texts).encode("utf-8", "surrogatepass"))
        try:
            # Version 2 writes no references, which would depend on which objects are shared in memory.
            rest = marshal.dumps(self._rest, 2)
        except ValueError:  # subclasses of plain types
            rest = marshal.dumps(_sort_tree(jsonable(self._rest)), 2)
        whole.update(rest)


class IdCounter:
    """Counts the ids that came before, in 8 bytes an id instead of some 100 for a set of strings.

    Ids are distinguished by a 64-bit hash: of a million different ids, two are taken for one with a
    probability of 3e-8.
    """

    def __init__(self) -> None:
        # In parts, so that counting builds a set of only one 256th of the ids at a time.
        self._parts = [array("q") for _ in range(256)]
        self._appends = [part.append for part in self._parts]

    def add_all(self, examples: Iterable[Example]) -> None:
        """Count the examples that have an id."""
        self.add_ids([example.id for example in examples if example.id is not None])

    def add_ids(self, ids: Iterable[str]) -> None:
        appends = self._appends
        for key in map(hash, ids):
            appends[key & 255](key)

    def duplicates(self) -> int:
        """Return how many of the added ids had been added before."""
        return sum(len(part) - len(set(part)) for part in self._parts)


def _object(content: Mapping[str, Any]) -> str:
    if len(content) == 1:
        ((key, value),) = content.items()
        if type(value) is str is type(key):
            return f"{{{_quoted(key)}:{_quoted(value)}}}"
    if _encode is None or type(content) is not dict:
        return _slow_object(content)
    try:
        return "".join(_encode(content, 0))
    except (ValueError, TypeError, RecursionError):
        return _slow_object(content)


def _slow_object(content: object) -> str:
    """Encode what the fast encoder does not: NaN, keys of mixed types, cycles, other mappings."""
    return _slow_encoder.encode(jsonable(content))


def _content(example: Example) -> tuple[Any, ...]:
    actual, metrics, error = example.actual_outputs, example.metrics, example.actual_error
    content = (
        example.id,
        order_keys(example.metadata),
        order_keys(example.inputs),
        order_keys(example.expected_outputs),
        None if actual is None else order_keys(actual),
        order_metrics(metrics) if type(metrics) is CallMetrics else _sort_tree(jsonable(metrics)),
    )
    return content if error is None else (*content, error)


def order_keys(content: Mapping[str, Any]) -> Any:
    """Normalize the order of the keys of a map."""
    if len(content) == 1:
        (member,) = content.items()
        return (member,) if type(member[1]) in SCALARS else _sort_tree(jsonable(content))
    for value in content.values():
        if type(value) not in SCALARS:
            return _sort_tree(jsonable(content))
    if len(content) < 2:
        return tuple(content.items())
    try:
        names, values = _key_order(tuple(content))
    except TypeError:  # keys of several types
        return _sort_tree(jsonable(content))
    return names, values(content)


@lru_cache(maxsize=1024)
def _key_order(keys: tuple[str, ...]) -> tuple[str, itemgetter[Any]]:
    """Rows of one data set have the same keys again and again, so they are sorted once."""
    ordered = sorted(keys)
    return repr(ordered), itemgetter(*ordered)


def _sort_tree(tree: object) -> Any:
    if type(tree) is dict:
        return {key: _sort_tree(tree[key]) for key in sorted(tree)}
    if type(tree) is list:
        return [_sort_tree(element) for element in tree]
    return tree

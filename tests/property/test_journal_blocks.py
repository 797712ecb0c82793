"""Lines of a journal that are read together say what each of them says by itself."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dokimos.experiment._item_index import Offsets
from dokimos.experiment._journal_blocks import ItemLines, read_heads
from dokimos.experiment._journal_lines import (
    UNUSUAL,
    cut_results,
    join_results,
    read_cost,
    read_head,
    read_outputs,
    with_checksum,
)

TEXTS = st.text(max_size=5) | st.sampled_from([',"m":{"latencyMs":1.5}', '"e":', "\\", "é", '","v":[', "}"])
KEYS = st.sampled_from(["output", "e", "m", "o", "v", "c", "x"])
TREES = st.dictionaries(
    KEYS, TEXTS | st.integers(0, 9) | st.dictionaries(KEYS, TEXTS, max_size=2), max_size=2
)
METRICS = st.sampled_from([
    {"latencyMs": 0.25}, {"latencyMs": 12.5}, {"latencyMs": 3}, {"latencyMs": 1e-9}, {"latencyMs": "x"}, {},
    {"tokensIn": 3, "latencyMs": 0.5}, {"model": "a{}b"}, {"tokensIn": -1}, None,
])  # fmt: skip


@st.composite
def item_lines(draw: st.DrawFn) -> bytes:
    record: dict[str, Any] = {"t": "item", "r": draw(st.integers(0, 12)), "i": draw(st.integers(0, 10**6))}
    record["h"] = f"{draw(st.integers(0, 2**64 - 1)):016x}"
    record |= {"x": {"inputs": draw(TREES)}, "o": draw(TREES)}
    if draw(st.integers(0, 9)) == 0:
        record["e"] = draw(TEXTS)
    metrics = draw(METRICS)
    if metrics is not None:
        record["m"] = metrics
    return write_line(draw, record)


@st.composite
def result_lines(draw: st.DrawFn) -> bytes:
    trees = draw(st.lists(TREES, max_size=2))
    return write_line(
        draw, {"t": "eval", "r": draw(st.integers(0, 12)), "i": draw(st.integers(0, 9)), "v": trees}
    )


def write_line(draw: st.DrawFn, record: dict[str, Any]) -> bytes:
    """Write a record as the journal does or, one in a while, as another tool would."""
    kind = draw(st.integers(0, 30))
    if kind == 1:
        return json.dumps(record).encode() + b"\n"
    if kind == 2:
        record = dict(reversed(record.items()))
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=draw(st.booleans()))
    return with_checksum(text[:-1].encode("utf-8", "backslashreplace"))


def alone(read: Any, line: bytes) -> Any:
    try:
        return read(line)
    except UNUSUAL:
        return UNUSUAL


def up_to_unusual(read: Any, lines: list[bytes]) -> list[Any]:
    found = [alone(read, line) for line in lines]
    return found[: found.index(UNUSUAL)] if UNUSUAL in found else found


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        item_lines() | result_lines() | st.just(with_checksum(b'{"t":"keep","v":{"t":"eval","r":0,"i":1,'))
    ),
    st.none() | st.tuples(st.integers(0), st.integers(1, 255)),
)
def test_heads(lines: list[bytes], damage: tuple[int, int] | None) -> None:
    text = bytearray(b"".join(lines))
    if damage is not None and text:
        text[damage[0] % len(text)] ^= damage[1]
    single = [read_head(line + b"\n") for line in bytes(text).split(b"\n")[:-1]]
    together = read_heads(bytes(text).split(b"\n")[:-1])
    assert together == (None if None in single else single)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(item_lines(), result_lines()), min_size=1, max_size=8),
    st.randoms(),
    st.integers(0, 99),
)
def test_items(pairs: list[tuple[bytes, bytes]], order: Any, start: int) -> None:
    """Also where the lines are in another order than the items."""
    lines = [line for pair in pairs for line in pair]
    places = list(range(len(lines)))
    order.shuffle(places)
    offsets, text = [0] * len(lines), b""
    for place in places:
        offsets[place] = start + len(text)
        text += lines[place]
    found = ItemLines(text, start, Offsets(array("q", offsets[0::2]), array("q", offsets[1::2])))
    items, results = lines[0::2], lines[1::2]

    assert found.costs() == up_to_unusual(read_cost, items)
    assert found.results(len(pairs)) == list(map(cut_results, results))
    several = ItemLines(text, start, Offsets(array("q", offsets[:1]), array("q", offsets), [len(offsets)]))
    assert several.results(1) == [join_results(lines)]
    outputs = found.outputs(range(len(pairs)))
    assert outputs == up_to_unusual(read_outputs, items)


def test_a_piece_in_which_something_is_unusual_is_read_up_to_it() -> None:
    usual = with_checksum(b'{"t":"item","r":0,"i":0,"h":"0123456789abcdef","o":{},"m":{"latencyMs":1.5}')
    erring = with_checksum(b'{"t":"item","r":0,"i":1,"h":"0123456789abcdef","e":"It broke."')
    offsets = array("q", [0, len(usual), len(usual + erring)])
    found = ItemLines(usual + erring + usual, 0, Offsets(offsets, offsets))
    assert found.costs() == [1.5]
    with pytest.raises(ValueError, match="may have an error"):
        read_cost(erring)

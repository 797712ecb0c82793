"""The fast way to read JSONL gives what the strict one does: the same examples, the same errors."""

from __future__ import annotations

import copy
import io
import json
import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dokimos._core.jsonable import MAX_DEPTH
from dokimos.datasets import _limits as limits
from dokimos.datasets._batched_examples import BatchedExamples
from dokimos.datasets._dataset import DatasetStream
from dokimos.datasets._fast_json import load_block_parser
from dokimos.datasets._fingerprint import Fingerprint
from dokimos.datasets._json_columns import Column
from dokimos.datasets._json_format import loads
from dokimos.datasets._jsonl_format import read_jsonl_batches
from dokimos.datasets._limits import LineBlock
from dokimos.datasets._rows import RowReader
from dokimos.datasets._source import Source
from dokimos.errors import DatasetError

KEYS = st.sampled_from(['"a"', '"b"', '"a:b"', '"\\u0061"', '"\\u003a"', '":"', '"\\":"', '"é"', '"\\ud800"'])
SCALARS = st.sampled_from([
    "null", "true", "0", "-0", "-0.0", "1.5", "1e5", "1E-400", "1e999", "-1e400", "1.7976931348623159e308",
    "1" + "0" * 400 + ".0", "1" + "0" * 4299, "1" + "0" * 4300, "9223372036854775808", "01", "1.", "NaN",
    "Infinity", "-Infinity", '"text"', '"a: b"', '"\\u003a"', '"\\\\u003a:"', '"\\":"', '"é:"', '"\\ud800"',
    '"\\ud83d\\ude00"', '"\\x"', '"\x7f"', '"\x01"', '"\x00"', "[]", "{}", "", "[" * 150 + "]" * 150,
    "[" * 300 + "]" * 300,
])  # fmt: skip
SPACE = st.sampled_from(["", "", "", " ", "\t", "\r", "\x0b", "\ufeff"])


@st.composite
def objects(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    members = [
        f"{draw(SPACE)}{draw(KEYS)}{draw(SPACE)}:{draw(SPACE)}{draw(values)}{draw(SPACE)}"
        for _ in range(draw(st.integers(0, 4)))
    ]
    return "{" + ",".join(members) + "}"


def arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, max_size=3).map(lambda elements: f"[{','.join(elements)}]")


NUMBERS = st.one_of(
    st.floats().map(repr),
    st.integers().map(str),
    st.from_regex(r"-?\d{1,25}(\.\d{1,25})?([eE][+-]?\d{1,3})?", fullmatch=True),
)
TEXTS = st.builds(json.dumps, st.text(max_size=5), ensure_ascii=st.booleans())
VALUES = st.recursive(
    SCALARS | NUMBERS | TEXTS, lambda inner: objects(inner) | arrays(inner), max_leaves=12
).map(lambda text: text.encode("utf-8", "surrogatepass"))
DAMAGED = st.builds(
    lambda line, cut, more: line[:cut] + more, VALUES, st.integers(0, 40), st.binary(max_size=3)
)
parse_block = load_block_parser()


def parse_fast(lines: list[bytes]) -> list[object] | None:
    rows = parse_block(LineBlock(b"\n".join(lines), len(lines)))
    return None if rows is None else list(rows.values)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(VALUES | VALUES.map(lambda value: b'{"input":' + value + b"}") | DAMAGED, min_size=1, max_size=4)
)
@example([b'{"a": 1, "a": 2}'])
@example([b'{"a": 1, "a": 2, "b": ":"}'])
@example([b'{"a": ":", "a": "::"}'])
@example([b'{"a": 1, "a": "\\u003a"}'])
@example([b'{"a": 1, "a" : 2}', b'{"b": "\\u003a"}'])
@example([b'{"a": [1e999]}'])
@example([b'{"a": 1e999, "b": -1e999}'])
@example([b'{"a": "\\u003a"}'])
@example([b'{"a": [1', b"2]}", b"{},NaN,{}"])
@example([b'{"a": [1', b'2], "a": 1}', b"{},NaN,{}"])
@example([b'{"a": [1', b'2], "a": ":"}', b"{},NaN,{}"])
@example([b"{},[1", b"2],{}"])
@example([b"{}", b"NaN"])
@example([b"{}", b'{"a": NaN}'])
@example([b"{},1,{}"])
@example([b"{}]", b"[{}"])
@example([b'{"a": "', b'"}'])
@example([b"{}", b"", b"{}"])
@example([b'{"a": {"b": 1}}'] * 16 + [b'{"a": {"b": 1, "b": 2}}'])
@example([b'{"a": {"b": 1}}'] * 16 + [b'{"a": {"b": 1e999}}'])
def test_rows_of_the_fast_parser_are_those_of_the_strict_one(lines: list[bytes]):
    rows = parse_fast(lines)
    if rows is not None:
        # repr(), since 1 == 1.0 == True and 0.0 == -0.0.
        assert [repr(row) for row in rows] == [repr(loads(line.decode().strip(" \t\r\n"))) for line in lines]


PIECES = st.sampled_from([
    "{", "}", "[", "]", ",", '"a":', '"b":', "NaN", "1", '"', "{}", '{"a":1}', '{"a":[1', "2]}", '"a":[',
    ",NaN,", "{},NaN,{}", '"a":2}', " ",
])  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(st.lists(PIECES, max_size=5).map("".join) | st.just("{}"), min_size=1, max_size=5))
def test_what_goes_on_in_the_next_line_is_left_to_the_strict_parser(lines: list[str]):
    rows = parse_fast([line.encode() for line in lines])
    if rows is not None:
        assert [repr(row) for row in rows] == [repr(loads(line.strip())) for line in lines]


PLAIN_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@settings(max_examples=150, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(-1e300, 1e300) | PLAIN_TEXT,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PLAIN_TEXT, inner, max_size=4),
    ),
    st.booleans(),
)
def test_usual_rows_need_the_fast_parser_alone(value: object, is_ascii: bool):
    line = json.dumps({"input": value}, ensure_ascii=is_ascii).encode()
    if b"\\u003" not in line:
        assert repr(parse_fast([line])) == repr([{"input": value}])


TEXT = st.sampled_from(["text", "a: b", "ü\n", ""])
MAP = st.sampled_from([{"k": 1}, {"b": 1.5, "a": None}, {"k": [1, {"x": 2.5}]}, {}, {"input": "q"}])
METRICS = st.sampled_from([
    {"tokensIn": 3, "costUsd": 0.5}, {"tokensIn": 1 << 70, "costUsd": 0.0}, {"tokensIn": -1, "costUsd": 0.5},
    {"model": "ü", "tokensIn": 1}, {"tokens_in": 3}, {}, {"rouge": 1}, None,
])  # fmt: skip
MEMBERS: dict[str, st.SearchStrategy[object]] = {
    "id": st.sampled_from(["a", "b", "c", "", None, 7]),
    **dict.fromkeys(("input", "expectedOutput", "expected_output", "actualOutput"), TEXT | MAP | st.none()),
    **dict.fromkeys(("inputs", "expectedOutputs", "actual_outputs", "metadata"), MAP),
    "metrics": METRICS,
    "actualError": TEXT,
    **dict.fromkeys(("topic", "expected", "inptu"), TEXT),
}
USUAL: dict[str, st.SearchStrategy[object]] = {
    "id": st.sampled_from(["a", "b", "c", None]),
    **dict.fromkeys(("input", "expectedOutput", "actualOutput"), st.sampled_from(["text", "a: b", "ü\n"])),
    **dict.fromkeys(("inputs", "metadata"), st.just({"k": 1, "a": 0.5})),
    "metrics": st.sampled_from([{"tokensIn": 3, "costUsd": 0.5}, {"tokensIn": 1 << 70, "costUsd": 0.5}]),
}
ODD_LINES = st.sampled_from([
    "", "  ", "oops", '{"input": 1, "input": 2}', '{"input": NaN}', "[1]", '{"input": "\\ud800"}', "{} {}",
    '{"input": 1e999}', "\ufeff{}", '{"input": "\\u003a"}', '{"input": 1}\r', "\udcff",
])  # fmt: skip


@st.composite
def files(draw: st.DrawFn, members: dict[str, st.SearchStrategy[object]], others: int) -> bytes:
    """Lines of rows that mostly have the same names, one in so many others of another kind."""
    shapes = st.lists(st.sampled_from(sorted(members)), max_size=6, unique=True)
    names = ["input", *draw(shapes)]
    lines = []
    for _ in range(draw(st.integers(0, 150))):
        kind = draw(st.integers(0, others))
        if kind == 1:
            names = draw(shapes)
        row = {name: draw(members[name]) for name in names}
        lines.append(draw(ODD_LINES) if kind == 2 else json.dumps(row))
    end = draw(st.sampled_from(["", "\n", "\n\n"]))
    return ("\n".join(lines) + end).encode("utf-8", "surrogateescape")


def read_whole(data: bytes, *, one_by_one: bool) -> tuple[object, ...]:
    """Return the examples, the error behind them, the warnings, and what the stream says about itself."""
    source = Source("rows.jsonl", "rows", lambda: io.BytesIO(data), waits=one_by_one)
    stream = DatasetStream(lambda: BatchedExamples(read_jsonl_batches(source, RowReader("rows.jsonl"))))
    found: list[object] = []
    error = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        examples = iter(stream)
        try:
            for each in examples:
                found.append((type(each), repr(each)))
        except DatasetError as failure:
            error = f"{failure} {failure.line}"
            assert next(examples, None) is None
    messages = [str(warning.message) for warning in caught]
    return found, error, messages, stream.fingerprint, stream.duplicate_ids


@settings(max_examples=120, deadline=None)
@given(files(MEMBERS, 15) | files(USUAL, 200), st.sampled_from([64, 700, 1 << 15]))
def test_a_file_is_read_in_blocks_as_it_is_line_by_line(data: bytes, block: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "_BLOCK", block)
        assert read_whole(data, one_by_one=False) == read_whole(data, one_by_one=True)


@settings(max_examples=60, deadline=None)
@given(files(USUAL, 200))
def test_a_stream_has_the_fingerprint_of_its_examples(data: bytes):
    source = Source("rows.jsonl", "rows", lambda: io.BytesIO(data))
    stream = DatasetStream(lambda: BatchedExamples(read_jsonl_batches(source, RowReader())))
    try:
        examples = tuple(stream)
    except DatasetError:
        return
    fingerprint = Fingerprint()
    for each in examples:
        fingerprint.add(each)
    assert stream.fingerprint == fingerprint.digest()


OUTPUTS = [TEXT, TEXT | MAP, TEXT | st.none(), st.none(), st.integers(), st.just([1, {"b": 2, "a": 1}])]
MAPS = [
    st.builds(lambda k, a: {"k": k, "a": a}, TEXT, st.integers() | st.none()),
    st.builds(lambda k, a: {"k": k, "a": a}, MAP, TEXT),
    st.fixed_dictionaries({"input": TEXT}),
    st.fixed_dictionaries({"output": TEXT}),
    st.just({}),
    MAP,
]
PLAIN_METRICS = [
    st.builds(lambda t, c: {"tokensIn": t, "costUsd": c}, st.integers(0, 9), st.floats(0, 9)),
    st.builds(lambda m: {"model": m, "cachedTokensIn": 2}, st.sampled_from(["gpt", "ü"])),
    METRICS,
]
SECTIONS: dict[str, list[st.SearchStrategy[object]]] = {
    "id": [st.sampled_from("abc"), st.sampled_from(["a", None])],
    **dict.fromkeys(("input", "expectedOutput", "expected_output", "actualOutput"), OUTPUTS),
    **dict.fromkeys(("inputs", "expected_outputs", "actualOutputs", "metadata"), MAPS),
    "metrics": PLAIN_METRICS,
}
CHOICES = [
    st.sampled_from(choice)
    for choice in (
        ("input", "inputs"), ("", "expectedOutput", "expected_outputs"),
        ("", "actualOutput", "actualOutputs"), ("", "id"), ("", "metadata"), ("", "metrics"),
    )
]  # fmt: skip


@st.composite
def alike_rows(draw: st.DrawFn) -> list[dict[str, object]]:
    """Rows with the same names, whose values are mostly of the same kind."""
    names = [name for name in map(draw, CHOICES) if name]
    members = {name: draw(st.sampled_from(SECTIONS[name])) for name in names}
    rows = draw(st.lists(st.fixed_dictionaries(members), min_size=8, max_size=20))
    return [{name: row[name] for name in names} for row in rows]  # the other ones are in any order


def nest(depth: int) -> object:
    return {"k": nest(depth - 1)} if depth else 1


@settings(max_examples=400, deadline=None)
@given(alike_rows())
@example([{"input": nest(MAX_DEPTH)}] * 8)
@example([{"inputs": nest(MAX_DEPTH + 1)}] * 8)
@example([{"input": [{"role": "user", "content": "q"}] * 2, "metadata": {"b": [1], "a": {"k": 1}}}] * 8)
@example([{"input": "q"}] * 8)
@example([{"input": "q", "expectedOutput": "a", "actualOutput": None}] * 8)
@example([{"inputs": {"input": "q"}, "expectedOutput": "a"}] * 8)
@example([{"inputs": {"input": "q"}, "expected_outputs": {"output": "a"}, "id": "1"}] * 8)
@example([{"inputs": {"input": "q", "k": 1}, "expectedOutput": "a"}] * 8)
@example([{"inputs": inputs, "expectedOutput": "a"} for inputs in ({"input": "q"}, {"k": 1})] * 4)
@example([{"input": "q", "expectedOutput": "a", "actualOutput": actual} for actual in ("b", None)] * 4)
@example([{"inputs": {"input": "q"}, "expected_outputs": {"output": ["a"]}, "id": "1"}] * 8)
@example([{"inputs": {"input": "q"}, "expectedOutput": "a", "actualOutputs": {"output": None}}] * 8)
@example([{"inputs": {"b": "q", "a": "r"}, "expectedOutput": "a"}] * 8)
def test_rows_that_are_read_together_are_those_that_are_read_one_by_one(rows: list[dict[str, object]]):
    copies = copy.deepcopy(rows)
    examples = RowReader().read_all(Column(rows))
    if examples is None:
        return
    single = [RowReader().read(row) for row in copies]
    assert [repr(each) for each in examples] == [repr(each) for each in single]
    assert list(examples.ids) == [each.id for each in single]
    contents, together, one_by_one = examples.contents(), Fingerprint(), Fingerprint()
    one_by_one.add_all(single)
    if contents is None:
        together.add_all(examples)
    else:
        together.add_columns(contents)
    assert together.digest() == one_by_one.digest()

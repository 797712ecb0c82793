"""Records of CSV that are read together are those that are read one by one."""

from __future__ import annotations

import io
import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dokimos.datasets import _csv_format as csv_format
from dokimos.datasets import _csv_records as csv_records
from dokimos.datasets._batched_examples import BatchedExamples
from dokimos.datasets._csv_format import read_csv_batches
from dokimos.datasets._dataset import DatasetStream
from dokimos.datasets._source import Source
from dokimos.errors import DatasetError

HEADERS = st.sampled_from([
    "id,input,expectedOutput,topic", "input,output", "input", "id,inputs.a,inputs.b,metadata.k,level,",
    "input,actual_output,expected_outputs.x", "inputs,input", "input,metrics,topic", "input,actualError",
    "id;input;topic", "expected_outputs.output,inputs.input,metadata", "output,topic",
])  # fmt: skip
USUAL = st.sampled_from(["a", "b c", "7", "", '"x, y"', '"say ""so"""', '"two\nlines"', "ü"])
UNUSUAL = st.sampled_from([
    " a", "a ", '" kept "', ' "spaced"', '"spaced" ', '5" wide', '"open', '"a"b', '""', "\x85", "\0", "a\rb",
    '"a\rb"',
    '"{""k"": 1}"', "{}", "\t",
])  # fmt: skip


@st.composite
def files(draw: st.DrawFn, others: int) -> bytes:
    header = draw(HEADERS)
    delimiter = ";" if ";" in header else ","
    width = header.count(delimiter) + 1
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    lines = [header]
    for _ in range(draw(st.integers(0, 60))):
        kind = draw(st.integers(0, others))
        count = draw(st.integers(0, width + 1)) if kind == 1 else width
        cells = [draw(UNUSUAL if kind in (2, 3) and draw(st.booleans()) else USUAL) for _ in range(count)]
        lines.append(draw(st.sampled_from(["", "  ", "\udcff"])) if kind == 4 else delimiter.join(cells))
    text = draw(st.sampled_from(["", "\ufeff"])) + end.join(lines) + draw(st.sampled_from(["", end]))
    return text.encode("utf-8", "surrogateescape")


def read_whole(data: bytes, *, one_by_one: bool, skip_empty: bool) -> tuple[object, ...]:
    """Return the examples, the error behind them, the warnings, and what the stream says about itself."""
    source = Source("rows.csv", "rows", lambda: io.BytesIO(data), waits=one_by_one)
    delimiter = ";" if b";" in data else ","
    stream = DatasetStream(
        lambda: BatchedExamples(read_csv_batches(source, delimiter=delimiter, skip_empty=skip_empty))
    )
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


@settings(max_examples=300, deadline=None)
@given(files(200) | files(12), st.sampled_from([8, 20, 128]), st.sampled_from([1 << 16, 50]), st.booleans())
@example(b"input\n" + b"   \n" * 9, 128, 1 << 16, False)
@example(b'input\n""\n' + b"a\n" * 9, 128, 1 << 16, False)
@example(b"input\n a\n" + b"   \n" * 9, 128, 1 << 16, False)
@example(b"input,topic\n" + b"a,b\n" * 9 + b'"open,b\n' + b"a,b\n" * 90, 8, 1 << 16, False)
@example(b"id,input,topic\n" + b"1,a,\n" * 9, 128, 1 << 16, True)
def test_a_file_is_read_in_blocks_as_it_is_record_by_record(
    data: bytes, together: int, much: int, skip_empty: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_format, "MANY_RECORDS", together)
        patch.setattr(csv_records, "_MUCH", much)
        quick = read_whole(data, one_by_one=False, skip_empty=skip_empty)
    assert quick == read_whole(data, one_by_one=True, skip_empty=skip_empty)


def test_most_records_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the property above would hold of two ways that do the same."""
    usual = "".join(f'{n},question {n},"an answer, ""{n}""\nin two lines",t\n' for n in range(300))
    source = Source.of_text("id,input,output,topic\n" + usual + " 300 ,q,a,t\n")
    sizes = [len(batch) for batch in read_csv_batches(source)]
    assert sum(sizes) == 301
    assert sizes.count(1) < 50

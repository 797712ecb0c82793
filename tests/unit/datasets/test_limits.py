"""Data files that would take all memory are refused, and large ones that are meant are read."""

import gzip
import io
import json
import os
import sys

import pytest

from dokimos import Dataset
from dokimos._cli.main import run_command
from dokimos.datasets import _limits as limits
from dokimos.datasets import _source as source
from dokimos.errors import DatasetError

LONGEST = 1 << 16


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(limits, "MAX_RECORD_BYTES", LONGEST)
    monkeypatch.setattr(source, "_FIRST_LINE", LONGEST // 2)


def row(length):
    return json.dumps({"input": "a" * (length - len('{"input": ""}'))})


@pytest.mark.usefixtures("small_limits")
class TestLongValues:
    def test_a_line_of_jsonl_may_be_as_long_as_the_limit_and_no_longer(self, tmp_path):
        path = tmp_path / "rows.jsonl"
        path.write_text(f"{row(50)}\n{row(LONGEST - 1)}\n")
        assert len(Dataset.load(path)) == 2
        path.write_text(f"{row(50)}\n\n{row(LONGEST + 1)}\n")
        with pytest.raises(DatasetError, match=r"rows\.jsonl:3: The line is longer than") as raised:
            Dataset.load(path)
        assert raised.value.line == 3

    @pytest.mark.parametrize("short", [0, 7, 20, 2_000])
    @pytest.mark.parametrize("end", ["", "\n"])
    def test_a_long_line_of_jsonl_between_short_ones(self, tmp_path, short, end):
        path = tmp_path / "rows.jsonl"
        lines = f"{row(50)}\n" * short
        path.write_text(f"{lines}{row(LONGEST - 1)}\n{lines}{row(LONGEST - 1)}{end}")
        assert [len(example.input) for example in Dataset.load(path)] == [
            len(json.loads(line)["input"]) for line in path.read_text().splitlines()
        ]
        path.write_text(f"{lines}{row(LONGEST + 1)}{end}")
        with pytest.raises(DatasetError) as raised:
            Dataset.load(path)
        assert raised.value.line == short + 1

    def test_a_line_of_csv(self, tmp_path):
        path = tmp_path / "rows.csv"
        path.write_text(f"input\nshort\n{'a' * (LONGEST + 1)}\n")
        with pytest.raises(DatasetError, match=r"rows\.csv:3: The line is longer than"):
            Dataset.load(path)

    def test_a_quote_in_csv_that_never_ends(self, tmp_path):
        path = tmp_path / "rows.csv"
        path.write_text('input\nfine\n"' + "short\n" * LONGEST)
        with pytest.raises(DatasetError, match=r"rows\.csv:3: The quoted cell that begins here is longer"):
            Dataset.load(path)

    def test_an_example_in_a_json_document_and_not_the_document(self, tmp_path):
        path = tmp_path / "rows.json"
        path.write_text(f"[{', '.join([row(500)] * 1000)}]")
        assert len(Dataset.load(path)) == 1000
        path.write_text(f'{{"examples": [\n{row(50)},\n{row(4 * LONGEST)}]}}')
        with pytest.raises(DatasetError, match=r"rows\.json:3: The value that begins here is longer"):
            Dataset.load(path)

    @pytest.mark.parametrize("text", [f"[{', '.join([row(500)] * 1000)}]", f"{row(LONGEST - 1)}\n{row(9)}\n"])
    def test_the_format_of_a_pipe_is_told_by_the_start_of_a_long_line(self, monkeypatch, text):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert len(Dataset.load("-")) in (2, 1000)

    @pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there is no /dev/zero")
    def test_a_device_without_end(self):
        with pytest.raises(DatasetError, match=r"/dev/zero:1: The line is longer"):
            Dataset.load("/dev/zero")

    def test_the_command_says_it_in_one_line(self, tmp_path, capsys):
        path = tmp_path / "rows.jsonl"
        path.write_text(row(2 * LONGEST))
        assert run_command(["validate", str(path)]) == 2
        assert "rows.jsonl:1: The line is longer than" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "start"),
    [("rows.jsonl.gz", b'{"input": "'), ("rows.json.gz", b'[{"input": "'), ("rows.csv.gz", b"input\n")],
)
def test_a_bomb_is_refused_before_it_takes_memory(tmp_path, name, start):
    path = tmp_path / name
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(start)
        for _ in range(100):
            file.write(b"a" * (1 << 20))
    assert path.stat().st_size < 200_000
    with pytest.raises(DatasetError, match=r"200 times as large: \d+(\.\d)? MB from 0\.\d MB"):
        Dataset.load(path).examples  # noqa: B018 - reads


def test_a_bomb_of_many_lines_is_refused_with_its_line(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(1100):
            file.write(b" " * 65535 + b"\n")
    with pytest.raises(DatasetError, match="more than 200 times as large") as raised:
        Dataset.load(path)
    assert raised.value.line is not None
    assert raised.value.line > 1000


def test_data_that_packs_well_is_read(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    with gzip.open(path, "wt") as file:
        for number in range(2000):
            file.write(json.dumps({"input": f"{number} " + "lorem ipsum " * 3}) + "\n")
    assert len(Dataset.load(path)) == 2000


def test_a_parquet_bomb_is_refused(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"input": ["a" * 100_000 + str(n) for n in range(50)]})
    path = tmp_path / "rows.parquet"
    parquet.write_table(table, path, compression="zstd", use_dictionary=False)
    assert len(Dataset.load(path)) == 50
    monkeypatch.setattr(limits, "UNPACKED_FREELY", 1 << 20)
    with pytest.raises(DatasetError, match="The Parquet data becomes more than 200 times as large"):
        Dataset.load(path)

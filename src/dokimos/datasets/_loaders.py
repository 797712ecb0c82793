"""Load or stream the examples of one source in one format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from dokimos._core.example import Example
from dokimos.datasets._batched_examples import BatchedExamples
from dokimos.datasets._columns import check_columns
from dokimos.datasets._csv_format import read_csv_batches
from dokimos.datasets._json_format import Head, read_json
from dokimos.datasets._jsonl_format import read_jsonl_batches
from dokimos.datasets._rows import RowReader
from dokimos.datasets._source import FileFormat, Source, find_format, sniff
from dokimos.datasets._tables import read_parquet

if TYPE_CHECKING:
    from dokimos.datasets._dataset import Dataset, DatasetStream

Columns: TypeAlias = Mapping[str, str] | None
Location: TypeAlias = str | os.PathLike[str]


def load_file(path: Location, columns: Columns = None) -> Dataset:
    """Load a file in the format that its extension says. Raises `DatasetError`."""
    source = Source.of_path(path)
    return load_source(source, _format(path, source), columns)


def stream_file(path: Location, columns: Columns = None) -> DatasetStream:
    """Open a file as a stream. Raises `DatasetError` at once if it is not there."""
    source = Source.of_path(path)
    return stream_source(source, _format(path, source), columns)


def _format(path: Location, source: Source) -> FileFormat:
    """Return what the extension says; a pipe, such as `/dev/fd/63`, mostly has none."""
    by_extension = find_format(os.fspath(path))
    if by_extension is not None:
        return by_extension
    return "json" if os.path.isfile(path) else sniff(source)


def load_source(
    source: Source,
    format: FileFormat,
    columns: Columns = None,
    *,
    name: str | None = None,
    delimiter: str = ",",
) -> Dataset:
    """Read a whole source. A name inside a JSON document is used unless `name` is given."""
    from dokimos.datasets._dataset import Dataset

    head = Head()
    examples = tuple(_reader(source, format, columns, head, delimiter)())
    return Dataset(examples, name or head.name or source.name, head.description)


def stream_source(source: Source, format: FileFormat, columns: Columns = None) -> DatasetStream:
    """Make a stream of a source; a JSON document's name is known if it stands before its examples."""
    from dokimos.datasets._dataset import DatasetStream

    head = Head()
    read = _reader(source, format, columns, head, ",")
    if format == "json":
        # Reads up to the first example, by when a name that stands before them is known.
        next(iter(read()), None)
    return DatasetStream(read, head.name or source.name, head.description, waits=source.waits)


def _reader(
    source: Source, format: FileFormat, columns: Columns, head: Head, delimiter: str
) -> Callable[[], Iterable[Example]]:
    check_columns(columns)
    match format:
        case "json":
            return lambda: read_json(source, RowReader(source.label, columns), head)
        case "jsonl":
            return lambda: BatchedExamples(read_jsonl_batches(source, RowReader(source.label, columns)))
        case "csv":
            return lambda: BatchedExamples(read_csv_batches(source, columns, delimiter))
        case "tsv":
            return lambda: BatchedExamples(read_csv_batches(source, columns, "\t"))
        case "parquet":
            return lambda: read_parquet(source, columns)

"""Read JSONL: strictly, and in blocks of lines where the next one does not take long to come."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, BinaryIO, Final, NoReturn

from dokimos._core.example import Example
from dokimos._core.excerpt import append_excerpt
from dokimos.datasets._fast_json import load_block_parser
from dokimos.datasets._json_columns import Column
from dokimos.datasets._json_format import SPACE, explain_fault, scan
from dokimos.datasets._limits import MANY_LINES, LineBlock, read_bounded_lines, read_line_blocks
from dokimos.datasets._rows import RowReader
from dokimos.datasets._source import Source, bad_utf8
from dokimos.errors import DatasetError

_MUCH: Final = 4 << 20
"""Bytes that are worth the import of the fast parser."""
_BLANK: Final = object()


def read_jsonl(source: Source, rows: RowReader) -> Iterator[Example]:
    """Yield one example per line that is not blank. Raises `DatasetError` also where there are none."""
    return chain.from_iterable(read_jsonl_batches(source, rows))


def read_jsonl_batches(source: Source, rows: RowReader) -> Iterator[Sequence[Example]]:
    """Yield what `read_jsonl` does, some at a time."""
    has_examples = False
    parse_block = _BlockParser().parse
    number = 1
    with source.open() as stream:
        for block in _read_lines(source, stream):
            parsed = parse_block(block) if block.line_count >= MANY_LINES else None
            examples = None if parsed is None else rows.read_all(parsed)
            if examples is not None:
                has_examples = True
                yield examples
                number += block.line_count
                del parsed, examples  # before the next ones are made: in memory that is in the caches
                continue
            values = _parse_lines(block.split(), source.label, number) if parsed is None else parsed.values
            for value in values:
                if value is not _BLANK:
                    has_examples = True
                    yield (rows.read(value, number),)
                number += 1
    if not has_examples:
        raise DatasetError("There are no examples: every line is blank.", path=source.label)


def _read_lines(source: Source, stream: BinaryIO) -> Iterable[LineBlock]:
    """Read lines, some at a time unless the next one may take long to come."""
    if source.waits:
        return (LineBlock(line, 1) for line in read_bounded_lines(stream, source.label))
    return read_line_blocks(stream, source.label)


class _BlockParser:
    """Parses blocks of lines, with the fast parser once they are so many that it is worth its import."""

    def __init__(self) -> None:
        self._size = 0
        self._parse_fast = load_block_parser() if "pydantic_core" in sys.modules else None

    def parse(self, block: LineBlock) -> Column | None:
        """Return the object of each line; None where one has something else, and should be read by itself."""
        if self._parse_fast is None:
            self._size += len(block.text)
            if self._size > _MUCH:
                self._parse_fast = load_block_parser()
        rows = None if self._parse_fast is None else self._parse_fast(block)
        return _parse_all(block) if rows is None else rows


def _parse_all(block: LineBlock) -> Column | None:
    """Parse lines strictly; None where one does not hold one object and nothing else."""
    values = []
    try:
        for raw in block.split():
            text = raw.decode().strip(SPACE)
            value, end = scan(text, 0)
            if end != len(text) or type(value) is not dict:
                return None
            values.append(value)
    except (ValueError, StopIteration, RecursionError):
        return None
    return Column(values)


def _parse_lines(lines: Sequence[bytes], label: str | None, first: int) -> Iterator[Any]:
    """Parse each line strictly; one without a value is _BLANK. Raises `DatasetError`."""
    for number, raw in enumerate(lines, first):
        try:
            text = raw.decode().strip(SPACE)
            value, end = scan(text, 0)
        except (ValueError, StopIteration, RecursionError) as error:
            # Only for lines that fail: blank ones and byte order marks cost the others nothing.
            yield _parse_again(raw, error, label, number)
        else:
            if end != len(text):
                _trailing(label, number)
            yield value


def _parse_again(raw: bytes, error: Exception, label: str | None, number: int) -> Any:
    """Read a line that did not parse once more: it may be blank or start with a byte order mark."""
    if isinstance(error, UnicodeDecodeError):
        raise bad_utf8(error, label, number) from None
    text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip(SPACE)
    if not text:
        return _BLANK
    try:
        value, end = scan(text, 0)
    except (ValueError, StopIteration, RecursionError) as again:
        message, at = explain_fault(again, text, 0)
        located_message = append_excerpt(message, "\n" * (number - 1) + text, at + number - 1, number)
        raise DatasetError(located_message, path=label, line=number) from None
    if end != len(text):
        _trailing(label, number)
    return value


def _trailing(label: str | None, number: int) -> NoReturn:
    raise DatasetError("Text after the JSON object; each line holds one.", path=label, line=number)

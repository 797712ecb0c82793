"""The text of workbooks and slides."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, time
from pathlib import Path
from typing import Any, Final

from dokimos._core.extras import require
from dokimos.errors import DocumentError
from dokimos.suites._retrieval.text_extraction import EXTRA, select_pages

_RANGE: Final = re.compile(r"\$?([A-Z]{1,3})\$?(\d+)(?::\$?([A-Z]{1,3})\$?(\d+))?", re.IGNORECASE)

Cells = dict[tuple[int, int], str]
"""Texts by row and column, both counted from 1."""


def workbook_text(path: Path, sheet: str | None, cells: str | None) -> str:
    """Return the sheets of a workbook as Markdown tables, each below its name.

    Raises:
        DocumentError: for a sheet or range that is not there.
    """
    # Of the readers there are, openpyxl takes one row at a time. calamine, ten times as fast, reserves memory
    # for the whole rectangle around the cells: two of them in far corners end the process.
    openpyxl: Any = require("openpyxl", extra=EXTRA)
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        sheets = {each.title: each for each in book.worksheets}
        if sheet is not None and sheet not in sheets:
            raise DocumentError(
                f"there is no sheet {sheet!r}; there are {', '.join(map(repr, sheets))}.", path=path
            )
        bounds = None if cells is None else _bounds(path, cells, openpyxl.utils.column_index_from_string)
        names = list(sheets) if sheet is None else [sheet]
        if bounds is not None:
            names = names[:1]  # a range without a sheet means the first one
        tables = {name: _table(_within(_cells(sheets[name]), bounds)) for name in names}
    finally:
        book.close()
    if sheet is not None or len(tables) == 1:
        return "\n".join(tables.values())
    return "\n\n".join(f"## {name}\n\n{table}" for name, table in tables.items() if table)


def slides_text(path: Path, pages: Sequence[int] | None) -> str:
    """Return the text of slides, each below its number. Raises `DocumentError` for one that is not there."""
    # Not with pptx.Presentation(), which takes no templates and no slide shows.
    package: Any = require("pptx.package", extra=EXTRA).Package.open(str(path))
    slides = list(package.main_document_part.presentation.slides)
    numbers = select_pages(path, pages, len(slides), "slide")
    texts = [_slide(slides[number - 1]) for number in numbers]
    return "\n\n".join(f"## Slide {number}\n\n{text}" for number, text in zip(numbers, texts, strict=True))


def _cells(sheet: Any) -> Cells:
    """Return the cells of a sheet that are not empty."""
    sheet.reset_dimensions()  # what a file says of its own size is often wrong, and each row is padded to it
    return {
        (number, column): text
        for number, row in enumerate(sheet.iter_rows(values_only=True), 1)
        for column, value in enumerate(row, 1)
        if value is not None and (text := _text(value))
    }


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time.min else value.isoformat(" ")
    return str(value)


def _bounds(path: Path, cells: str, number_of: Callable[[str], int]) -> tuple[int, int, int, int]:
    """Return the first and last row, and the first and last column, of a range."""
    match = _RANGE.fullmatch(cells.strip())
    if match is None:
        raise DocumentError(f"{cells!r} is not a range of cells such as A1:C10.", path=path)
    column, row, last_column, last_row = match[1], int(match[2]), match[3] or match[1], match[4] or match[2]
    rows, columns = sorted((row, int(last_row))), sorted((number_of(column), number_of(last_column)))
    return rows[0], rows[1], columns[0], columns[1]


def _within(cells: Cells, bounds: tuple[int, int, int, int] | None) -> Cells:
    if bounds is None:
        return cells
    top, bottom, left, right = bounds
    return {
        (row, column): text
        for (row, column), text in cells.items()
        if top <= row <= bottom and left <= column <= right
    }


def _table(cells: Cells) -> str:
    """Return a Markdown table whose first row is its head; rows and columns without a cell are left out."""
    if not cells:
        return ""
    columns = sorted({column for _, column in cells})
    rows = [[cells.get((row, column), "") for column in columns] for row in sorted({row for row, _ in cells})]
    lines = ["| " + " | ".join(map(_in_table, row)) + " |" for row in rows]
    lines.insert(1, "|" + " --- |" * len(columns))
    return "\n".join(lines)


def _in_table(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _slide(slide: Any) -> str:
    # All paragraphs, since text boxes with formulas are in no list of shapes. A fallback says the same again.
    paragraphs = slide.element.xpath(".//a:p[not(ancestor::*[local-name()='Fallback'])]")
    return "\n".join(text for text in map(_paragraph, paragraphs) if text.strip())


def _paragraph(paragraph: Any) -> str:
    parts = paragraph.xpath(".//*[local-name()='t' or local-name()='br']")
    return "".join("\n" if part.tag.endswith("}br") else part.text or "" for part in parts)

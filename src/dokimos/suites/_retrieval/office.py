"""The text of workbooks and slides: both are ZIP archives of XML."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Final
from xml.etree.ElementTree import Element, fromstring

from dokimos.errors import DocumentError
from dokimos.suites._retrieval.text_extraction import select_pages

_RELATED: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_RANGE: Final = re.compile(r"\$?([A-Z]{1,3})\$?(\d+)(?::\$?([A-Z]{1,3})\$?(\d+))?", re.IGNORECASE)
_SLIDE: Final = re.compile(r"ppt/slides/slide(\d+)\.xml")
_DATE_FORMATS: Final = frozenset(range(14, 23))
"""The numbers of Excel's own formats for dates and times."""
_DATE_SIGNS: Final = re.compile(r"[ymdhs]", re.IGNORECASE)
_NOT_SIGNS: Final = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
_FIRST_DAY: Final = datetime(1899, 12, 30)

Cells = dict[tuple[int, int], str]
"""Texts by row and column, both counted from 1."""


def workbook_text(path: Path, sheet: str | None, cells: str | None) -> str:
    """Return the sheets of a workbook as Markdown tables, each below its name.

    Raises:
        DocumentError: for a sheet or range that is not there.
    """
    with zipfile.ZipFile(path) as archive:
        book = _Workbook(archive)
        if sheet is not None and sheet not in book.sheets:
            raise DocumentError(
                f"there is no sheet {sheet!r}; there are {', '.join(map(repr, book.sheets))}.", path=path
            )
        bounds = None if cells is None else _bounds(path, cells)
        names = list(book.sheets) if sheet is None else [sheet]
        if bounds is not None:
            names = names[:1]  # a range without a sheet means the first one
        tables = {name: _table(_within(book.cells(name), bounds)) for name in names}
    if sheet is not None or len(tables) == 1:
        return "\n".join(tables.values())
    return "\n\n".join(f"## {name}\n\n{table}" for name, table in tables.items() if table)


def slides_text(path: Path, pages: Sequence[int] | None) -> str:
    """Return the text of slides, each below its number. Raises `DocumentError` for one that is not there."""
    with zipfile.ZipFile(path) as archive:
        found = {int(match[1]): name for name in archive.namelist() if (match := _SLIDE.fullmatch(name))}
        names = [found[number] for number in sorted(found)]
        numbers = select_pages(path, pages, len(names), "slide")
        texts = [_slide(_xml(archive, names[number - 1])) for number in numbers]
    return "\n\n".join(f"## Slide {number}\n\n{text}" for number, text in zip(numbers, texts, strict=True))


class _Workbook:
    """The parts of a workbook that its cells refer to."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._texts = [_join_text(item) for item in _all(self._part("xl/sharedStrings.xml"), "si")]
        self._dates = _date_styles(self._part("xl/styles.xml"))
        targets = {
            relation.get("Id"): relation.get("Target", "")
            for relation in _all(self._part("xl/_rels/workbook.xml.rels"), "Relationship")
        }
        self.sheets: dict[str, str] = {}
        for sheet in _all(_xml(archive, "xl/workbook.xml"), "sheet"):
            target = targets.get(sheet.get(_RELATED), "")
            path = target.lstrip("/") if target.startswith("/") else str(PurePosixPath("xl") / target)
            self.sheets[sheet.get("name", "")] = path

    def cells(self, sheet: str) -> Cells:
        """Return the cells of a sheet that are not empty."""
        found: Cells = {}
        for cell in _all(_xml(self._archive, self.sheets[sheet]), "c"):
            position = _RANGE.fullmatch(cell.get("r", ""))
            text = self._text(cell)
            if position is not None and text:
                found[int(position[2]), _column(position[1])] = text
        return found

    def _part(self, name: str) -> Element | None:
        return _xml(self._archive, name) if name in self._archive.namelist() else None

    def _text(self, cell: Element) -> str:
        kind = cell.get("t")
        if kind == "inlineStr":
            return _join_text(cell)
        value = next((part.text or "" for part in _all(cell, "v")), "")
        if kind == "s":
            return self._texts[int(value)]
        if kind == "b":
            return "TRUE" if value == "1" else "FALSE"
        if kind is None and value and int(cell.get("s", "0")) in self._dates:
            return _date(value)
        return value


def _date_styles(styles: Element | None) -> frozenset[int]:
    """Return the numbers of the cell styles that show dates."""
    if styles is None:
        return frozenset()
    own = {
        int(form.get("numFmtId", "0"))
        for form in _all(styles, "numFmt")
        if _DATE_SIGNS.search(_NOT_SIGNS.sub("", form.get("formatCode", "")))
    }
    used = next(_all(styles, "cellXfs"), None)
    formats = [] if used is None else [int(style.get("numFmtId", "0")) for style in _all(used, "xf")]
    return frozenset(index for index, form in enumerate(formats) if form in own | _DATE_FORMATS)


def _date(value: str) -> str:
    moment = _FIRST_DAY + timedelta(seconds=round(float(value) * 86_400))
    return moment.date().isoformat() if moment.time() == datetime.min.time() else moment.isoformat(" ")


def _bounds(path: Path, cells: str) -> tuple[int, int, int, int]:
    """Return the first and last row, and the first and last column, of a range."""
    match = _RANGE.fullmatch(cells.strip())
    if match is None:
        raise DocumentError(f"{cells!r} is not a range of cells such as A1:C10.", path=path)
    column, row, last_column, last_row = match[1], int(match[2]), match[3] or match[1], match[4] or match[2]
    rows, columns = sorted((row, int(last_row))), sorted((_column(column), _column(last_column)))
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


def _slide(root: Element) -> str:
    paragraphs = ("".join(part.text or "" for part in _all(each, "t")) for each in _all(root, "p"))
    return "\n".join(text for text in paragraphs if text.strip())


def _column(letters: str) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def _join_text(element: Element) -> str:
    return "".join(part.text or "" for part in _all(element, "t"))


def _all(root: Element | None, name: str) -> Iterator[Element]:
    """Return the elements of a name below another, whatever their namespace."""
    return iter(()) if root is None else root.iterfind(f".//{{*}}{name}")


def _xml(archive: zipfile.ZipFile, name: str) -> Element:
    return fromstring(archive.read(name))

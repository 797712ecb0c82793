"""Tables for the terminal that show all their columns, however narrow it is."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from dokimos._runtime.terminal_text import escape_control_characters

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

INDENT: Final = 2
QUIET: Final = "dim"
_WIDE_GAP, _NARROW_GAP = 2, 1
_READABLE: Final = 24
"""Characters of a name that are worth more than a drawing."""
_LEAST_OF_TEXTS: Final = 16
_SHORTEST: Final = 12
"""Fewer characters say too little of a name: then it gets a line of its own."""

Cell: TypeAlias = str | tuple[str, str]
"""A text, or a text and its style."""


@dataclass(frozen=True, slots=True)
class Column:
    """The title of a column, and how it behaves where there is little room."""

    title: str
    left: bool = False
    """Whether it is aligned to the left, as names are; numbers are aligned to the right."""
    least: int = 0
    """Characters that it takes at least."""
    most: int | None = None
    """Characters that it takes at most; longer texts lose their middle."""
    spare: bool = False
    """Whether it is dropped where it does not fit, since it only draws what others say."""
    group: str = ""
    """A word above the titles of neighbours."""
    whole: bool = False
    """Of the first column: whether its texts are never cut, since they are copied."""
    rest: bool = False
    """Of the last column: whether it holds texts, which are cut off where the line ends."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; the first column holds names, which are cut where there is little room.

    Columns without any text are dropped. Where even short names do not fit beside the other columns, they
    have lines of their own; and where these columns do not fit either, each cell is listed with its title.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]


def print_table(table: Table, console: Console) -> None:
    """Print a table as wide as it needs to be and at most as wide as the console."""
    for line in table_lines(table, console.width):
        console.print(line, no_wrap=True, overflow="ellipsis", crop=True)


def table_lines(table: Table, width: int) -> Iterator[Text]:
    """Yield the lines of a table for so many columns of a terminal."""
    table = _drop_empty_columns(table)
    if not table.rows:
        return
    variants = _variants(table)
    fitted = _fit_in_rows(variants, width)
    if fitted is not None:
        yield from _lay_out_in_rows(*fitted)
        return
    for candidate in variants:
        widths = _widths(candidate)
        left = width - 2 * INDENT + _NARROW_GAP - sum(_NARROW_GAP + one for one in widths[1:])
        if left >= 0:
            yield from _lay_out_below_names(candidate, _widen_last(widths, candidate, left))
            return
    yield from _list_cells(variants[-1], width)


def _fit_in_rows(variants: Sequence[Table], width: int) -> tuple[Table, Sequence[int], int] | None:
    """Return the first variant that fits beside its names, with the widths of its columns and their gap."""
    for candidate in variants:
        widths = _widths(candidate)
        # A drawing is dropped before names become unreadable.
        shortest = _SHORTEST if candidate is variants[-1] else _READABLE
        shortest = widths[0] if candidate.columns[0].whole else shortest
        for gap in (_WIDE_GAP, _NARROW_GAP):
            room = width - INDENT - sum(gap + one for one in widths[1:])
            if room >= min(widths[0], shortest):
                names = min(widths[0], room)
                return candidate, _widen_last((names, *widths[1:]), candidate, room - names), gap
    return None


def cell_width(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for a sign of Chinese, and most emoji."""
    from rich.cells import cell_len

    return cell_len(text)


def cut_middle(text: str, width: int) -> str:
    """Return a text of at most so many columns on one line; a longer one loses its middle."""
    text = " ".join(text.split())
    if cell_width(text) <= width:
        return text
    from rich.cells import set_cell_size

    if width < 2:
        return "…"[:width]
    # The beginning of a name says more than its end, and the end more than its middle.
    tail = (width - 1) // 3
    end = ""
    for char in reversed(text):
        if cell_width(char + end) > tail:
            break
        end = char + end
    start = set_cell_size(text, width - 1 - cell_width(end)).rstrip()
    return f"{start}…{end}"


def cut_end(text: str, width: int) -> str:
    """Return a text of at most so many columns on one line; a longer one loses its end."""
    # Foreign text may be megabytes long: only what can be seen, and its blanks, is measured.
    text = " ".join(text[: 4 * width].split())
    if cell_width(text) <= width:
        return text
    from rich.cells import set_cell_size

    return set_cell_size(text, max(width - 1, 0)).rstrip() + "…"[:width]


def pad(text: str, width: int, *, left: bool = True) -> str:
    """Return a text with blanks that make it this wide on a terminal."""
    blanks = " " * (width - cell_width(text))
    return text + blanks if left else blanks + text


def _drop_empty_columns(table: Table) -> Table:
    indexes = [i for i, _ in enumerate(table.columns) if any(cell_text(row[i]) for row in table.rows)]
    return _select_columns(table, indexes)


def _variants(table: Table) -> list[Table]:
    """Return the table as it is, and without the columns that can be spared."""
    needed = [i for i, column in enumerate(table.columns) if not column.spare]
    return [table] if len(needed) == len(table.columns) else [table, _select_columns(table, needed)]


def _select_columns(table: Table, indexes: Sequence[int]) -> Table:
    return Table([table.columns[i] for i in indexes], [[row[i] for i in indexes] for row in table.rows])


def cell_text(cell: Cell) -> str:
    """Return the text of a cell."""
    return _split_style(cell)[0]


def _split_style(cell: Cell) -> tuple[str, str]:
    text, style = (cell, "") if isinstance(cell, str) else cell
    # Before it is measured: escapes are longer than what they stand for.
    return escape_control_characters(text), style


def _widths(table: Table) -> list[int]:
    widths = []
    for index, column in enumerate(table.columns):
        longest = max(cell_width(cell_text(row[index])) for row in table.rows)
        limit = longest if column.most is None else column.most
        limit = min(limit, _LEAST_OF_TEXTS) if column.rest else limit
        widths.append(max(column.least, cell_width(column.title), min(longest, limit)))
    return widths


def _widen_last(widths: Sequence[int], table: Table, left: int) -> Sequence[int]:
    """Return the widths, with the room that is left added to a last column of texts."""
    return (*widths[:-1], widths[-1] + left) if table.columns[-1].rest else widths


def _lay_out_in_rows(table: Table, widths: Sequence[int], gap: int) -> Iterator[Text]:
    """Yield each row on a line of its own."""
    between = " " * gap
    for head in _heads(table.columns):
        yield _line(table.columns, widths, head, between)
    for row in table.rows:
        yield _line(table.columns, widths, row, between)


def _lay_out_below_names(table: Table, widths: Sequence[int]) -> Iterator[Text]:
    """Yield each row's name, and below it the other cells."""
    from rich.text import Text

    names, *others = table.columns
    between = " " * _NARROW_GAP
    room = sum(widths[1:]) + len(others) * _NARROW_GAP
    if names.title:
        yield Text(" " * INDENT + names.title, QUIET)
    for head in _heads(others):
        yield _line(others, widths[1:], head, between, indent=2 * INDENT)
    for row in table.rows:
        name, style = _split_style(row[0])
        if name:
            yield Text(" " * INDENT + cut_middle(name, max(room, _SHORTEST)), style)
        yield _line(others, widths[1:], row[1:], between, indent=2 * INDENT)


def _list_cells(table: Table, width: int) -> Iterator[Text]:
    """Yield each row as its name and, below it, what each column says."""
    from rich.text import Text

    for row in table.rows:
        if cell_text(row[0]):
            yield Text(" " * INDENT + cut_middle(cell_text(row[0]), max(width - INDENT, 2)))
        texts = [
            f"{f'{column.group} ' if column.group else ''}{column.title} {cell_text(cell)}".strip()
            for column, cell in zip(table.columns[1:], row[1:], strict=True)
            if cell_text(cell)
        ]
        for line in textwrap.wrap(", ".join(texts), max(width - 2 * INDENT, 8)):
            yield Text(" " * 2 * INDENT + line)


def _heads(columns: Sequence[Column]) -> Iterator[list[Cell]]:
    """Yield the lines above the rows: groups and titles, each where there are some."""
    for texts in ([column.group for column in columns], [column.title for column in columns]):
        if any(texts):
            yield [(text, QUIET) for text in texts]


def _line(
    columns: Sequence[Column],
    widths: Sequence[int],
    cells: Sequence[Cell],
    between: str,
    *,
    indent: int = INDENT,
) -> Text:
    from rich.text import Text

    line = Text(" " * indent)
    for index, (column, width, cell) in enumerate(zip(columns, widths, cells, strict=True)):
        text, style = _split_style(cell)
        line.append(between if index else "")
        fitted = cut_end(text, width) if column.rest else cut_middle(text, width)
        line.append(pad(fitted, width, left=column.left), style)
    line.rstrip()
    return line

"""What a view is made of: lines and tables, on a terminal or as HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

from dokimos._core.markup import Html, tag
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.reporting._console import read_columns_variable
from dokimos.reporting._tables import Table, cell_text, print_table

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

Detail: TypeAlias = Literal["summary", "full", "verbose"]
"""The verdict and the table; what the command shows; and all that there is."""


Fit: TypeAlias = Literal["cut", "wrap", "keep"]
"""What becomes of a line that is too long: it is cut off, wrapped in a terminal, or kept, to be copied."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text."""

    text: str = ""
    style: str = ""
    fit: Fit = "cut"


Block: TypeAlias = Line | Table


@dataclass(frozen=True, slots=True)
class View(Generic[T]):
    """What a kind of value looks like."""

    headline: Callable[[T], str]
    """What it says in one line, for its `repr`."""
    print_on: Callable[[T, Console, Detail], None]
    html: Callable[[T], str]

    @classmethod
    def of_blocks(
        cls, headline: Callable[[T], str], blocks: Callable[[T, Detail], Iterable[Block]]
    ) -> View[T]:
        """Make a view of what is shown in the same lines and tables everywhere."""

        def print_on(value: T, console: Console, detail: Detail) -> None:
            print_blocks(blocks(value, detail), console)

        return cls(headline, print_on, lambda value: blocks_html(blocks(value, "full")))


def print_blocks(blocks: Iterable[Block], console: Console) -> None:
    """Print lines and tables."""
    for block in blocks:
        if isinstance(block, Table):
            print_table(block, console)
        else:
            _print_line(block, console)


def _print_line(line: Line, console: Console) -> None:
    from rich.text import Text

    is_pipe = not console.is_terminal and read_columns_variable() is None
    if line.fit == "cut":
        console.print(Text(line.text, line.style), no_wrap=True, overflow="ellipsis", crop=True)
    elif line.fit == "keep" or is_pipe:  # in a pipe, a sentence stays in one piece
        console.print(Text(line.text, line.style), soft_wrap=True)
    else:
        # Wrapped here and not by rich, so that the further lines keep the indent of the first.
        words = line.text.lstrip()
        indent = " " * (len(line.text) - len(words))
        for part in Text(escape_control_characters(words), line.style).wrap(
            console, max(console.width - len(indent), 8)
        ):
            part.rstrip()
            console.print(Text(indent).append_text(part), soft_wrap=True)


def blocks_html(blocks: Iterable[Block]) -> str:
    """Return lines and tables as a fragment of HTML, without colours: notebooks are light or dark."""
    return tag("div", [_block_html(block) for block in blocks]).markup


def _block_html(block: Block) -> Html | None:
    if isinstance(block, Table):
        return table_html(
            [f"{column.group} {column.title}".strip() for column in block.columns],
            [[cell_text(cell) for cell in row] for row in block.rows],
        )
    text = escape_control_characters(block.text.strip())
    if not text:
        return None
    return tag("p", tag("b", text) if "bold" in block.style else text)


def table_html(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Html | None:
    """Return a table of foreign texts; nothing at all where it has no rows."""
    body = [tag("tr", [tag("td", escape_control_characters(cell)) for cell in row]) for row in rows]
    cells = [tag("th", escape_control_characters(name)) for name in head]
    return tag("table", tag("thead", tag("tr", cells)), tag("tbody", body)) if body else None

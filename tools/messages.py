"""Print all messages that users see, with their places: raised, warned of, printed, or given as a reason.

    python tools/messages.py [FOLDER ...] [--find REGEX]

An f-string is shown with the expressions in its braces. Read the list in one go from time to time: it shows
whether the messages are of one voice.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

SHOWING = frozenset(
    "warn echo secho print ClickException UsageError BadParameter Score Text rule add_row error fail".split()  # noqa: SIM905 - a list of words
)
"""Functions and classes whose text arguments reach users."""
HELPING = frozenset({"help", "short_help", "epilog", "reason", "hint"})
"""Keywords whose values do, whatever is called."""
SHORTEST = 12
"""Shorter texts are keys and names."""


def main() -> None:
    """Print the messages below the folders, a line each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("src/dokimos")])
    parser.add_argument("--find", type=re.compile, help="print only the messages in which this matches")
    options = parser.parse_args()
    for folder in options.folders:
        for path in sorted(folder.rglob("*.py")):
            for line, text in messages(path.read_text(encoding="utf-8")):
                if options.find is None or options.find.search(text):
                    print(f"{path}:{line}: {text}")


def messages(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each message in a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from _texts([*node.exc.args, *(keyword.value for keyword in node.exc.keywords)])
        elif isinstance(node, ast.Call):
            named = [keyword.value for keyword in node.keywords if keyword.arg in HELPING]
            yield from _texts([*(node.args if _name(node.func) in SHOWING else ()), *named])


def _name(function: ast.expr) -> str:
    return getattr(function, "attr", None) or getattr(function, "id", "")


def _texts(expressions: list[ast.expr]) -> Iterator[tuple[int, str]]:
    for expression in expressions:
        text = "".join(_pieces(expression))
        if len(text) >= SHORTEST and " " in text:
            yield expression.lineno, text


def _pieces(expression: ast.expr) -> Iterator[str]:
    match expression:
        case ast.Constant(value=str(text)):
            yield text.replace("\n", "\\n")
        case ast.JoinedStr(values=values):
            for value in values:
                yield from _pieces(value)
        case ast.FormattedValue(value=value):
            yield f"{{{ast.unparse(value)}}}"
        case ast.BinOp(left=left, right=right):
            yield from _pieces(left)
            yield from _pieces(right)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _pieces(body)
            yield " | "
            yield from _pieces(orelse)


if __name__ == "__main__":
    main()

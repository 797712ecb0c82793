"""Write a comparison to a file, in the format that its name implies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from dokimos.comparison._diff import RunComparison
from dokimos.comparison._html import html_of
from dokimos.comparison._markdown import markdown_of
from dokimos.comparison._tree import comparison_tree
from dokimos.errors import ConfigurationError
from dokimos.exporters._base import write_report


def json_of(comparison: RunComparison) -> str:
    """Return a comparison as JSON."""
    tree = comparison_tree(comparison)
    return json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


FORMATS: Final[dict[str, Callable[[RunComparison], str]]] = {
    ".json": json_of,
    ".html": html_of,
    ".htm": html_of,
    ".md": markdown_of,
    ".markdown": markdown_of,
}


def writer_for(path: str | Path) -> Callable[[RunComparison], str]:
    """Return what renders a comparison for a file of this name.

    Raises:
        ConfigurationError: for an ending that nobody knows.
    """
    writer = FORMATS.get(Path(path).suffix.lower())
    if writer is None:
        endings = ", ".join(FORMATS)
        raise ConfigurationError(f"Cannot write a comparison as {str(path)!r}; the formats are {endings}.")
    return writer


def export_comparison(comparison: RunComparison, path: str | Path) -> Path:
    """Write a comparison as .json, .html or .md and return its path; folders are created.

    Raises:
        ConfigurationError: for an ending that nobody knows, and a path that cannot be written.
    """
    text = writer_for(path)(comparison)
    return write_report(Path(path), text)

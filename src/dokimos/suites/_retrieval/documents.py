"""The documents of a collection: which files they are, and the passages that they are cut into."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dokimos._runtime.file_access import files_read
from dokimos.errors import ConfigurationError
from dokimos.suites._retrieval.chunking import (
    Chunk,
    estimate_tokens,
    format_heading_path,
    split_sections,
    split_text,
)
from dokimos.suites._retrieval.records import Record, parse_records
from dokimos.suites._retrieval.schema import HierarchicalDocumentTool, VectorstoreTool
from dokimos.suites._retrieval.text_extraction import KIND_OF, to_text

AnyRetrievalTool = VectorstoreTool | HierarchicalDocumentTool

_ENDINGS: Final = ", ".join(ending for ending, kind in KIND_OF.items() if kind != "image")
_PATTERN_SIGNS: Final = frozenset("*?[")
_LISTED_AT_MOST: Final = 5


@dataclass(frozen=True, slots=True)
class Entry:
    """A passage as it goes into a collection."""

    source: str
    """The file that it comes from, and which record of it."""
    text: str
    headings: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def full_text(self) -> str:
        """The text with the headings above it and the fields that belong to it: what a model is given."""
        parts = [format_heading_path(self.headings), self.text, _lines(self.metadata)]
        return "\n\n".join(part for part in parts if part)

    def search_text(self, *, with_headings: bool) -> str:
        """Return what is embedded and what words are looked for in."""
        return Chunk(self.text, self.headings).full_text if with_headings or not self.text else self.text


def source_files(source: str, folder: Path) -> list[Path]:
    """Return the files that a source names, in order.

    Raises:
        ConfigurationError: when there are none, or the source is a URL.
    """
    if "://" in source:
        raise ConfigurationError(f"the source {source!r} is a URL; download it and name the file.")
    root = folder / source
    if root.is_file():
        return [root]
    if root.is_dir():
        paths = [path for path in root.rglob("*") if _is_document(path, root)]
        listed_folders = {root, *(path.parent for path in paths)}
    elif _PATTERN_SIGNS & set(source):
        paths = _files_of_pattern(source, folder)
        listed_folders = {path.parent for path in paths}
    else:
        files_read.record_missing(root)
        raise ConfigurationError(f"there is no source {root}.")
    # A file that is added to one of these changes what the agent finds, although no file was changed.
    for listed in listed_folders:
        files_read.record_listing(listed)
    if not paths:
        raise ConfigurationError(
            f"there are no documents in {root}; files of these kinds are read: {_ENDINGS}."
        )
    return sorted(paths)


def _files_of_pattern(pattern: str, folder: Path) -> list[Path]:
    # With root_dir, since the folder's own name may contain signs of patterns.
    matches = glob.glob(pattern, root_dir=folder, recursive=True)
    return [path for match in matches if (path := folder / match).is_file() and _has_text(path)]


def read_entries(block: AnyRetrievalTool, files: list[Path], folder: Path) -> list[Entry]:
    """Read files and cut them into passages.

    Raises:
        DocumentError: naming a file that cannot be read.
        ConfigurationError: when there is no text in any of them.
    """
    entries = [entry for path in files for entry in _entries(block, path, format_label(path, folder))]
    if not entries:
        names = ", ".join(format_label(path, folder) for path in files[:_LISTED_AT_MOST])
        raise ConfigurationError(f"there is no text in the source {block.source!r} ({names}).")
    return entries


def format_label(path: Path, folder: Path) -> str:
    """Return a file's place below the suite's folder, or its whole path."""
    try:
        return path.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        return path.as_posix()


def _entries(block: AnyRetrievalTool, path: Path, label: str) -> Iterator[Entry]:
    if isinstance(block, VectorstoreTool):
        records = parse_records(path, block)
        if records is not None:
            yield from _record_entries(block, records, label)
            return
        for text in split_text(to_text(path), limit=block.chunk_size, overlap=block.chunk_overlap):
            yield Entry(label, text)
        return
    for chunk in _chunks(block, to_text(path)):
        yield Entry(label, chunk.text, chunk.headings)


def _chunks(block: HierarchicalDocumentTool, text: str) -> list[Chunk]:
    limit, overlap = block.max_chunk_tokens, block.chunk_overlap
    if block.chunking_strategy == "structure":
        return split_sections(text, limit=limit, overlap=overlap)
    return [
        Chunk(part) for part in split_text(text, limit=limit, overlap=overlap, size=estimate_tokens)
    ]  # fmt: skip


def _record_entries(block: VectorstoreTool, records: list[Record], label: str) -> Iterator[Entry]:
    for record in records:
        for text in split_text(record.text, limit=block.chunk_size, overlap=block.chunk_overlap):
            yield Entry(f"{label}#{record.id}", text, metadata=record.metadata)


def _lines(metadata: Mapping[str, Any]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in metadata.items())


def _is_document(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return not hidden and path.is_file() and _has_text(path)


def _has_text(path: Path) -> bool:
    return KIND_OF.get(path.suffix.lower(), "image") != "image"

"""What cases are made from: documents, JSON Schemas, traces and existing cases, as texts with passages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from dokimos._core.example import Example
from dokimos._core.jsonable import text_form
from dokimos.datasets._dataset import Dataset
from dokimos.errors import ConfigurationError, DatasetError, DokimosError
from dokimos.evaluators._json_schema import compile_schema, schema_text
from dokimos.suites._retrieval.chunking import format_heading_path, split_sections
from dokimos.suites._retrieval.documents import format_label, source_files
from dokimos.suites._retrieval.text_extraction import to_text

PASSAGE_TOKENS: Final = 500
"""How long a part of a document is that a model is shown at once, in tokens about."""
_LONGEST_SCHEMA: Final = 20_000
"""Characters of a schema that a model is shown."""
_DATA: Final = (".json", ".jsonl", ".ndjson")


class SourceKind(StrEnum):
    """What a source is.

    Example:
        >>> SourceKind("schema")
        <SourceKind.SCHEMA: 'schema'>
    """

    DOCUMENT = "document"
    """Text, Markdown, HTML, PDF, and the files of office programs."""
    SCHEMA = "schema"
    """A JSON Schema of the inputs."""
    TRACE = "trace"
    """What an application did, as an export of OpenTelemetry."""
    CASES = "cases"
    """A data set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A text that cases are made from, whole."""

    label: str
    """The file, of traces and cases with the id."""
    kind: SourceKind
    text: str
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A part of a source that a model is shown at once."""

    source: Source
    text: str
    headings: str = ""
    """The headings above it: `Guide > Returns`."""


def read_sources(paths: Sequence[str | Path], *, kind: SourceKind | str | None = None) -> tuple[Source, ...]:
    """Read files and folders. What a JSON file is, its content says unless `kind` does.

    Raises:
        ConfigurationError: where nothing is found.
        DocumentError: for a file that cannot be read.
    """
    chosen_kind = None if kind is None else SourceKind(kind)
    folder = Path.cwd()
    files = [file for path in paths for file in _find_files(str(path), folder)]
    sources = [one for file in files for one in _read_file(file, format_label(file, folder), chosen_kind)]
    found = [source for source in sources if source.text.strip()]
    if not found:
        names = ", ".join(map(str, paths))
        raise ConfigurationError(f"There is nothing in {names} that cases could be made from.")
    return tuple(found)


def sources_of_examples(examples: Iterable[Example], label: str) -> Iterator[Source]:
    """Yield each example as a source."""
    for index, example in enumerate(examples):
        lines = [f"Input: {inputs_text(example)}"]
        if example.expected_output is not None:
            lines.append(f"Expected: {example.expected_output}")
        name = f"{label}#{example.id or index}"
        yield Source(label=name, kind=SourceKind.CASES, text="\n".join(lines))


def inputs_text(example: Example) -> str:
    """Return the input of an example as text; several inputs as JSON."""
    return example.input or text_form(dict(example.inputs)) or ""


def split_into_passages(sources: Iterable[Source]) -> tuple[Passage, ...]:
    """Cut documents at their headings and by length; other sources are one passage each."""
    return tuple(passage for source in sources for passage in _passages(source))


def _passages(source: Source) -> Iterator[Passage]:
    if source.kind in (SourceKind.SCHEMA, SourceKind.CASES):
        yield Passage(source=source, text=source.text)
        return
    for chunk in split_sections(source.text, limit=PASSAGE_TOKENS):
        if chunk.text.strip():
            yield Passage(source=source, text=chunk.text, headings=format_heading_path(chunk.headings))


def _find_files(path: str, folder: Path) -> list[Path]:
    try:
        return source_files(path, folder)
    except ConfigurationError as error:
        problem = str(error)  # which is written as a part of a sentence
        raise ConfigurationError(f"{problem[:1].upper()}{problem[1:]}") from None


def _read_file(path: Path, label: str, kind: SourceKind | None) -> Iterator[Source]:
    chosen = kind or _detect(path)
    if chosen is SourceKind.SCHEMA:
        yield _read_schema(path, label)
    elif chosen is SourceKind.TRACE:
        yield from _read_traces(path, label)
    elif chosen is SourceKind.CASES:
        yield from sources_of_examples(Dataset.load(path), label)
    else:
        yield Source(label=label, kind=SourceKind.DOCUMENT, text=to_text(path))


def _detect(path: Path) -> SourceKind:
    """Say what a file is: a JSON file may be a schema, traces, cases or a document."""
    if path.suffix.lower() == ".gz":
        return _detect_packed(path)
    if path.suffix.lower() not in _DATA:
        return SourceKind.DOCUMENT
    try:
        first = to_text(path)
        tree = json.loads(first if path.suffix.lower() == ".json" else first.lstrip().split("\n", 1)[0])
    except (DokimosError, ValueError, RecursionError):
        return SourceKind.DOCUMENT
    if isinstance(tree, Mapping):
        if "resourceSpans" in tree or "resource_spans" in tree:
            return SourceKind.TRACE
        if "$schema" in tree or (tree.get("type") == "object" and "properties" in tree):
            return SourceKind.SCHEMA
    try:
        examples = Dataset.load(path)
    except DatasetError:
        return SourceKind.DOCUMENT
    return SourceKind.CASES if len(examples) else SourceKind.DOCUMENT


def _detect_packed(path: Path) -> SourceKind:
    """Say what a file is that only the readers of traces and data sets unpack."""
    from dokimos.traces import load_spans

    try:
        return SourceKind.TRACE if load_spans(path) else SourceKind.CASES
    except DokimosError:
        return SourceKind.CASES


def _read_schema(path: Path, label: str) -> Source:
    text = to_text(path)
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not a JSON Schema: {error}") from None
    if not isinstance(schema, Mapping):
        raise ConfigurationError(f"{path} is not a JSON Schema: it is not an object.")
    try:
        compile_schema(schema_text(schema))  # before anything is paid for cases of it
    except ValueError as error:
        raise ConfigurationError(f"{path} is not a JSON Schema: {error}") from None
    if len(text) > _LONGEST_SCHEMA:
        raise ConfigurationError(
            f"{path} has {len(text):,} characters; a model is shown schemas of at most {_LONGEST_SCHEMA:,}. "
            "Give a part of it."
        )
    return Source(label=label, kind=SourceKind.SCHEMA, text=text, schema=schema)


def _read_traces(path: Path, label: str) -> Iterator[Source]:
    from dokimos.traces import load_spans, to_conversations

    for name, conversation in to_conversations(load_spans(path)).items():
        text = conversation.to_text(tool_calls="full")
        yield Source(label=f"{label}#{name}", kind=SourceKind.TRACE, text=text)

"""The documents that an application retrieved: their texts and metadata, from results or from tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from dokimos._core.agent import AgentTrace
from dokimos._core.contexts import document_text, strip_score
from dokimos._core.jsonable import jsonable, text_form
from dokimos.integrations._framework_objects import get

_METADATA_FIELDS: Final = ("metadata", "meta")


def extract_texts(documents: Iterable[Any] | None) -> list[str]:
    """Return the texts of retrieved documents, whichever framework's; with a score beside them or not."""
    return [_document_text(strip_score(document)) for document in documents or ()]


def extract_texts_with_metadata(documents: Iterable[Any] | None) -> list[dict[str, Any]]:
    """Return `{"text": ..., "metadata": {...}}` for each retrieved document."""
    plain = (strip_score(document) for document in documents or ())
    return [{"text": _document_text(each), "metadata": _document_metadata(each)} for each in plain]


def _document_text(document: object) -> str:
    text = document_text(document)
    return text if text is not None else text_form(document) or ""


def _document_metadata(document: object) -> dict[str, Any]:
    metadata = {} if isinstance(document, str) else get(document, *_METADATA_FIELDS, default={})
    return dict(jsonable(metadata)) if isinstance(metadata, Mapping) else {}


def find_tool_documents(trace: AgentTrace, tools: Iterable[str]) -> tuple[Any, ...] | None:
    """Return the documents in the results of tools that retrieve; None if none of them gave a result.

    A result that is a JSON list, or has one under "documents", "results", "chunks" or "sources", is as many
    documents; any other result is one.
    """
    names = frozenset(tools)
    results = [call.result for call in trace.tool_calls if call.name in names and call.result is not None]
    return tuple(each for result in results for each in _parse_documents(result)) if results else None


def _parse_documents(result: str) -> list[Any]:
    try:
        value = json.loads(result)
    except (ValueError, RecursionError):
        return [result]
    if isinstance(value, dict):
        value = get(value, "documents", "results", "chunks", "sources", default=[value])
    return value if isinstance(value, list) else [result]

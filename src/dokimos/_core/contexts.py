"""What was retrieved: the names under which a case may hold it, and the texts of its chunks.

`contexts` is the name to use. The others are those of other frameworks and of older files; a value under any
of them is understood by every evaluator that needs what was retrieved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dokimos._core.jsonable import IDS_OF_DOCUMENTS, TEXTS_OF_DOCUMENTS, text_form
from dokimos._core.keys import CONTEXTS, RETRIEVED
from dokimos._core.text import quote
from dokimos.errors import EvaluationError

_CONTEXT: Final = "context"
RETRIEVAL_CONTEXT: Final = "retrieval_context"
_RETRIEVAL: Final = (
    "retrievalContext", RETRIEVAL_CONTEXT, "retrievedContexts", "retrieved_contexts",
    "retrievedContext", "retrieved_context",
)  # fmt: skip

OF_ANSWERS: Final = (CONTEXTS, _CONTEXT, *_RETRIEVAL, RETRIEVED)
"""The order in which evaluators of answers look for what the answer rests on."""
OF_RETRIEVERS: Final = (CONTEXTS, *_RETRIEVAL, _CONTEXT, RETRIEVED)
"""The order in which judged evaluators of a retriever look: in some data `context` is the ideal one."""
OF_RANKINGS: Final = (RETRIEVED, CONTEXTS, *_RETRIEVAL, _CONTEXT)
"""The order in which the retrieval metrics look: where ids and texts are given, `retrieved` has the ids."""
NAMES: Final = frozenset(OF_ANSWERS)

_ABOUT: Final = frozenset({*IDS_OF_DOCUMENTS, "score", "rank", "distance"})
"""What a map may hold that names a chunk and does not contain it."""
_ID: Final = re.compile(r"[!-~]{1,200}")


class Chunk(NamedTuple):
    """One retrieved chunk."""

    text: str
    id: str | None = None


class ContextsEntry(NamedTuple):
    """A value that may hold contexts, and where it is."""

    section: str
    """`outputs`, `metadata` or `inputs`."""
    key: str
    value: Any

    @property
    def path(self) -> str:
        return f"{self.section}.{self.key}"


def find_contexts(
    outputs: Mapping[str, Any],
    metadata: Mapping[str, Any],
    inputs: Mapping[str, Any],
    names: Sequence[str] = OF_ANSWERS,
    *,
    texts: bool = True,
) -> ContextsEntry | None:
    """Return where the contexts of a case are, None where it has none.

    What the application gave comes before the metadata (columns of the data set) and the inputs; within each,
    the first of the names counts. None stands for nothing, an empty list for a retriever that found nothing.

    Args:
        outputs: What the application gave.
        metadata: What is known of the row.
        inputs: What the application was given.
        names: The keys to look under, the one that counts first.
        texts: Whether texts are needed: what holds only ids is passed over.
    """
    for section, held in (("outputs", outputs), ("metadata", metadata), ("inputs", inputs)):
        for name in names:
            value = held.get(name)
            if value is not None and not (texts and name == RETRIEVED and are_ids(value)):
                return ContextsEntry(section, name, value)
    return None


def chunks_of(entry: ContextsEntry) -> tuple[Chunk, ...]:
    """Return the chunks of contexts: a text, a document, or a list of such.

    Documents are maps with `text`, `content` or `page_content`, and objects of frameworks with such an
    attribute, with a score beside them or not.

    Raises:
        EvaluationError: for anything else, and for documents that have an id and no text.
    """
    return tuple(_chunk(item, entry) for item in items_of(entry))


def items_of(entry: ContextsEntry) -> list[Any]:
    """Return the items of contexts as they are, lists in lists as one list.

    Raises:
        EvaluationError: where they are neither text, nor a document, nor a list.
    """
    value = parse_list(entry.value)
    if isinstance(value, list | tuple | set | frozenset) or _is_sequence(value):
        return [*_flatten(value)]
    if isinstance(value, str) or _has_text(strip_score(value)) or _is_only_about(value):
        return [value]
    raise EvaluationError(
        f"{entry.path!r} must be a text, a document or a list of these, not {type(value).__name__}: "
        f"{quote(value)}."
    )


def are_ids(value: object) -> bool:
    """Say whether a value looks like ids rather than texts: without white space, and plain ASCII."""
    items = value if isinstance(value, list | tuple | set | frozenset) else [value]
    return bool(items) and all(_is_id(item) for item in items)


def parse_list(value: object) -> Any:
    """Return the list that a text holds as JSON, as in the cell of a table; any other value as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith("["):
        return value
    try:
        tree = json.loads(value)
    except (ValueError, RecursionError):
        return value
    are_chunks = isinstance(tree, list) and all(isinstance(item, str | dict) for item in tree)
    return tree if are_chunks else value


def document_text(document: object) -> str | None:
    """Return the text of a document, whichever framework's; None where it has none."""
    if isinstance(document, str):
        return document
    for name in TEXTS_OF_DOCUMENTS:
        text = _field(document, name)
        if isinstance(text, str):
            return text
    return None


def document_id(document: object) -> str | None:
    """Return the id of a document, whichever framework's; None where it has none."""
    if isinstance(document, str | int | float):
        return None
    ids = (_field(document, name) for name in IDS_OF_DOCUMENTS)
    named = next((each for each in ids if each is not None), None)
    return str(named) if isinstance(named, str | int) else None


def strip_score(document: object) -> Any:
    """Return the document without its score, from a (document, score) pair or a scored node."""
    # LangChain's similarity_search_with_score gives pairs, LlamaIndex nodes with a score around them.
    if isinstance(document, tuple | list) and len(document) == 2 and _is_score(document[1]):
        document = document[0]
    inner = None if isinstance(document, str) else _field(document, "node")
    return document if inner is None or not _has_text(inner) else inner


def _chunk(item: object, entry: ContextsEntry) -> Chunk:
    document = strip_score(item)
    text, named = document_text(document), document_id(document)
    if text is None and named is not None and _is_only_about(document):
        raise EvaluationError(
            f"{entry.path!r} has ids without texts, such as {quote(document)}; give each chunk a text, such "
            'as {"id": ..., "text": ...}.'
        )
    return Chunk(text if text is not None else text_form(document) or "", named)


def _flatten(values: Any) -> Iterator[Any]:
    for value in values:
        # One level: some vector databases answer with a list of lists, one for each query.
        if isinstance(value, list | tuple) and strip_score(value) is value:
            yield from value
        else:
            yield value


def _has_text(value: object) -> bool:
    return document_text(value) is not None


def _is_only_about(document: object) -> bool:
    return isinstance(document, Mapping) and bool(document) and _ABOUT.issuperset(document)


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def _is_score(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_id(item: object) -> bool:
    if isinstance(item, str):
        return _ID.fullmatch(item) is not None
    return isinstance(item, int) or _is_only_about(item)


def _field(document: object, name: str) -> Any:
    return document.get(name) if isinstance(document, Mapping) else getattr(document, name, None)

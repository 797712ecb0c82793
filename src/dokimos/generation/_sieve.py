"""Drafts of a model, of which those are kept that are worth a look of a person."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from dokimos.evaluators._json_schema import compile_schema, find_violations, schema_text
from dokimos.generation._checks import find_doubts
from dokimos.generation._drafts import Draft
from dokimos.generation._duplicates import KnownTexts
from dokimos.generation._passages import find_passage
from dokimos.generation._review_case import Rejections, ReviewCase, SourcePassage, input_text
from dokimos.generation._sources import Passage, Source, SourceKind

_LISTED: Final = 10
"""Rejected drafts that are kept as examples."""


class Sieve:
    """Takes drafts, and keeps those that are worth a look of a person."""

    def __init__(self, known: Iterable[str], listed: Collection[str] = ()) -> None:
        self.found: list[tuple[ReviewCase, Passage]] = []
        self._known = KnownTexts(known)
        self._listed = set(listed)
        """Cases of an earlier attempt: they are in the list, so they are similar to what is known."""
        self._counts: Counter[str] = Counter()
        self._examples: list[str] = []

    def add(self, passage: Passage, draft: Draft) -> None:
        """Take one draft."""
        source, text, answer = passage.source, draft.input.strip(), draft.answer.strip()
        span = find_passage(source.text, draft.quote)
        if not text or (not answer and source.kind is not SourceKind.SCHEMA):
            self._reject("empty", source, draft, "it has no input or no answer")
        elif span is None:
            self._reject("without_passage", source, draft, f"{draft.quote!r:.120} does not occur there")
        elif (problem := _find_fault(source, text)) is not None:
            self._reject("invalid", source, draft, problem)
        else:
            self._add_case(_make_case(passage, draft, span), passage, draft)

    def _add_case(self, case: ReviewCase, passage: Passage, draft: Draft) -> None:
        text = input_text(case)
        same = None if case.id in self._listed else self._known.find_same(text)
        if same is not None:
            self._reject("duplicates", passage.source, draft, f"it says the same as {same!r:.120}")
            return
        similar = None if case.expected is None else self._known.find_similar(text)
        if similar is not None:
            case = replace(case, check=(*case.check, f"it differs in one word only from {similar!r:.120}"))
        self._listed.discard(case.id)
        self._known.add(text)
        self.found.append((case, passage))

    def rejections(self) -> Rejections:
        """Return what was rejected, by reason."""
        return Rejections(examples=tuple(self._examples), **self._counts)

    def _reject(self, reason: str, source: Source, draft: Draft, why: str) -> None:
        self._counts[reason] += 1
        if len(self._examples) < _LISTED:
            self._examples.append(f"{source.label}: {draft.input!r:.120}: {why}.")


def _make_case(passage: Passage, draft: Draft, span: tuple[int, int]) -> ReviewCase:
    source, (start, end) = passage.source, span
    is_schema = source.kind is SourceKind.SCHEMA
    text, answer, quote = draft.input.strip(), draft.answer.strip(), source.text[start:end]
    mark = hashlib.sha256(json.dumps([source.label, text]).encode()).hexdigest()[:10]
    return ReviewCase(
        id=f"case-{mark}",
        input=json.loads(text) if is_schema else text,
        expected=None if is_schema else answer,
        category=draft.category,
        check=() if is_schema else tuple(find_doubts(text, answer, quote)),
        source=SourcePassage(document=source.label, text=quote, start=start, headings=passage.headings),
    )


def _find_fault(source: Source, text: str) -> str | None:
    """Return what is wrong with the input of a schema, None where nothing is."""
    if source.kind is not SourceKind.SCHEMA or source.schema is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"it is not JSON ({error})"
    if not isinstance(value, dict):
        return "it is not an object"
    violations = find_violations(compile_schema(schema_text(source.schema)), value)
    return f"it is not valid under the schema: {violations[0]}" if violations else None

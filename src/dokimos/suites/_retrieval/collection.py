"""A collection of documents as a tool: opened once, then searched by meaning, by words or by both."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from dokimos._runtime.concurrency import call_in_thread
from dokimos._runtime.file_lock import hold_lock_async
from dokimos.errors import ConfigurationError
from dokimos.judges._cassette import Cassette
from dokimos.judges._embeddings import Embedder, embed
from dokimos.judges._judge_calls import CallStore
from dokimos.judges._protocol import identity_of
from dokimos.judges._run_scope import current_scope
from dokimos.suites._retrieval.documents import AnyRetrievalTool, format_label, read_entries, source_files
from dokimos.suites._retrieval.schema import HierarchicalDocumentTool, SearchMode
from dokimos.suites._retrieval.store import FORM, Found, KnownVectors, PassageFile
from dokimos.suites._retrieval.text_extraction import read_content

EMBEDDED_AT_ONCE: Final = 1024
"""Passages whose vectors are put on disk together."""
KEPT_VERSIONS: Final = 3
"""Files of one collection that are kept, the newest ones."""
CANDIDATES: Final = 50
"""The least number of passages in each ranking that is joined with others."""


@dataclass(frozen=True, slots=True)
class Passage:
    """What a search has found."""

    text: str
    """The passage with the headings above it and the fields that belong to it."""
    source: str
    """The file that it comes from, relative to the suite, and which record of it."""
    headings: tuple[str, ...] = ()
    score: float = 0.0
    """How well it fits, 0..1: the cosine, or the rank where rankings are joined or words are looked for."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Collection:
    """Documents that can be searched; made by `open_collection`."""

    def __init__(
        self, block: AnyRetrievalTool, file: PassageFile, embedder: Embedder | None, warnings: Sequence[str]
    ) -> None:
        self.block = block
        self.path = file.path
        self.warnings = tuple(warnings)
        self._file = file
        self._embedder = embedder
        self._mode = mode_of(block, embedder)

    def __len__(self) -> int:
        return len(self._file)

    async def search(self, query: str, top_k: int | None = None) -> list[Passage]:
        """Return the passages that fit a query best, the best one first.

        Raises:
            JudgeError: when the query cannot be embedded.
        """
        if not query.strip():
            return []
        count = top_k or self.block.top_k
        least = self.block.least_score or 0.0
        ranking = await self._rank(query, count)
        matches = [each for each in ranking[:count] if each.score >= least]
        return await call_in_thread(lambda: [self._passage(each) for each in matches])

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    async def _rank(self, query: str, count: int) -> list[Found]:
        if self._mode != "hybrid":
            return await self._rank_by(self._mode, query, count)
        block = self.block
        assert isinstance(block, HierarchicalDocumentTool)
        rankings = {
            # Deeper than asked for: what is low in each of the rankings may be high in all of them together.
            mode: (weight, await self._rank_by(mode, query, max(CANDIDATES, 5 * count)))
            for mode, weight in _weights(block, self._embedder).items()
        }
        return fuse_rankings(list(rankings.values()), k=block.rrf_k)

    async def _rank_by(self, mode: SearchMode, query: str, count: int) -> list[Found]:
        if mode != "semantic":
            by_words = partial(self._file.matching, query, count, phrase=mode == "exact")
            return _scale_to_best(await call_in_thread(by_words))
        assert self._embedder is not None
        (vector,) = await embed(self._embedder, [query])
        if len(vector) != self._file.dimensions:
            raise ConfigurationError(
                f"{identity_of(self._embedder)} gave {len(vector)} numbers for a query, but the collection "
                f"has vectors of {self._file.dimensions}; delete {self.path} to embed the documents again."
            )
        nearest = await call_in_thread(self._file.nearest, vector, count)
        return [Found(id, max(0.0, min(1.0, similarity))) for id, similarity in nearest]

    def _passage(self, found: Found) -> Passage:
        entry = self._file.entry(found.id)
        return Passage(entry.full_text, entry.source, entry.headings, found.score, entry.metadata)


async def open_collection(
    block: AnyRetrievalTool, folder: Path, *, embedder: Embedder | None, cache_dir: Path
) -> Collection:
    """Open the collection of a tool; what of it is not in the cache yet is read and embedded.

    Processes that open the same one at the same time build it once. What a killed process has embedded is not
    embedded again, nor is what has not changed since an earlier version of the documents.

    Args:
        block: The tool, as the suite describes it.
        folder: Where relative paths start.
        embedder: Turns texts into vectors; without one, passages are found by their words alone.
        cache_dir: Where the files of collections are kept.

    Raises:
        ConfigurationError: when there are no documents.
        DocumentError: naming a document that cannot be read.
        JudgeError: when texts cannot be embedded.
    """
    embedder = embedder if needs_vectors(block) else None
    files = await call_in_thread(source_files, block.source, folder)
    content = await call_in_thread(_content_hash, files, folder)
    cache_dir.mkdir(parents=True, exist_ok=True)
    series = f"{block.name}-{_variant(block, embedder)}"
    # The name holds all that decides the content, so a file is right or not there; nothing goes stale.
    path = cache_dir / f"{series}-{content}.sqlite"
    # Without the lock first: a finished file is never written again.
    if not path.exists():
        async with hold_lock_async(path.with_suffix(".lock")):
            # Another process may have built it while this one waited for the lock.
            # Another process may have built it while this one waited.
            if not path.exists():
                await _build(path, series, block, files, folder, embedder)
    file = await call_in_thread(_open_file, path)
    if embedder is not None:
        try:
            await _share(file, embedder)
        except BaseException:
            file.close()
            raise
    return Collection(block, file, embedder, warnings_of(block, embedder))


def _open_file(path: Path) -> PassageFile:
    file = PassageFile(path)
    try:
        len(file)
    except sqlite3.Error as error:
        file.close()
        raise ConfigurationError(
            f"the collection {path} cannot be read ({error}); delete it to build it again."
        ) from error
    return file


def needs_vectors(block: AnyRetrievalTool) -> bool:
    """Say whether a tool searches by meaning."""
    return block.search_mode in ("semantic", "hybrid")


def mode_of(block: AnyRetrievalTool, embedder: Embedder | None) -> SearchMode:
    """Return how a tool searches: by words where there is no embedder."""
    return "keyword" if embedder is None and block.search_mode == "semantic" else block.search_mode


def fuse_rankings(rankings: Sequence[tuple[float, Sequence[Found]]], *, k: int) -> list[Found]:
    """Join weighted rankings by the reciprocals of their ranks; 1.0 is the first place in all of them.

    Cormack, Clarke and Buettcher, "Reciprocal rank fusion", SIGIR 2009.
    """
    # The score of a passage that is first everywhere, so that scores are shares of what can be reached.
    best = sum(weight for weight, _ in rankings) / (k + 1)
    scores: dict[int, float] = {}
    for weight, ranking in rankings:
        for rank, found in enumerate(ranking, 1):
            scores[found.id] = scores.get(found.id, 0.0) + weight / (k + rank)
    joined = [Found(id, min(1.0, score / best)) for id, score in scores.items() if score > 0]
    return sorted(joined, key=lambda found: (-found.score, found.id))


def _weights(block: HierarchicalDocumentTool, embedder: Embedder | None) -> dict[SearchMode, float]:
    weights: dict[SearchMode, float] = {
        "semantic": block.semantic_weight if embedder is not None else 0.0,
        "keyword": block.keyword_weight,
        "exact": block.exact_weight,
    }
    return {mode: weight for mode, weight in weights.items() if weight > 0} or {"keyword": 1.0}


def _scale_to_best(found: Sequence[Found]) -> list[Found]:
    """Return scores as shares of the best one: those of words have no scale of their own."""
    best = max((each.score for each in found), default=0.0)
    return [Found(each.id, each.score / best if best > 0 else 1.0) for each in found]


async def _build(
    path: Path,
    series: str,
    block: AnyRetrievalTool,
    files: list[Path],
    folder: Path,
    embedder: Embedder | None,
) -> None:
    """Make the file of a collection, whole or not at all."""
    unfinished = path.with_suffix(".partial")
    file = await call_in_thread(_create_or_continue, unfinished, block, files, folder)
    with contextlib.ExitStack() as stack:
        stack.callback(file.close)
        if embedder is not None:
            earlier = list(_earlier(path, series))
            for each in earlier:
                stack.callback(each.close)
            await _embed_all(file, embedder, (*_cassettes(), KnownVectors(earlier)))
    # The last step: under its own name a file is always whole.
    os.replace(unfinished, path)
    _forget_old(path, series)


def _create_or_continue(path: Path, block: AnyRetrievalTool, files: list[Path], folder: Path) -> PassageFile:
    """Continue with what a killed process has left, or start anew."""
    if path.exists():
        file = PassageFile(path, writable=True)
        # Passages come in one transaction, so a killed process leaves all of them or none.
        with contextlib.suppress(sqlite3.Error):
            if len(file):
                return file
        file.close()
    path.unlink(missing_ok=True)
    # SQLite would roll a journal of the removed file back into the new one.
    path.with_name(f"{path.name}-journal").unlink(missing_ok=True)
    contextual = getattr(block, "contextual_embeddings", False)
    return PassageFile.create(path, read_entries(block, files, folder), with_headings=contextual)


async def _embed_all(file: PassageFile, embedder: Embedder, stores: Sequence[CallStore]) -> None:
    while rows := await call_in_thread(file.list_unembedded, EMBEDDED_AT_ONCE):
        vectors = await embed(embedder, [text for _, text in rows], stores=stores)
        if file.dimensions not in (None, len(vectors[0])):
            raise ConfigurationError(
                f"{identity_of(embedder)} gives vectors of {len(vectors[0])} numbers now, and gave "
                f"{file.dimensions} before; delete {file.path}."
            )
        await call_in_thread(file.fill, [id for id, _ in rows], vectors)


async def _share(file: PassageFile, embedder: Embedder) -> None:
    """Let a cassette have the vectors of the documents too: whoever replays it may have no cache."""
    cassettes = _cassettes()
    if cassettes:
        texts = await call_in_thread(file.texts)
        await embed(embedder, texts, stores=(*cassettes, KnownVectors([file])))


def _cassettes() -> tuple[CallStore, ...]:
    """The run's cassettes; its other stores need no vectors that the collection's file keeps anyway."""
    return tuple(store for store in current_scope().call_stores if isinstance(store, Cassette))


def _earlier(path: Path, series: str) -> Iterator[PassageFile]:
    for other in _versions(path, series):
        with contextlib.suppress(sqlite3.Error, OSError):
            yield PassageFile(other)


def _versions(path: Path, series: str) -> list[Path]:
    """Return the finished files of a collection, the newest one first."""
    dated = []
    for other in path.parent.glob(f"{series}-*.sqlite"):
        with contextlib.suppress(OSError):
            dated.append((other.stat().st_mtime_ns, other))
    return [other for _, other in sorted(dated, reverse=True)]


def _forget_old(path: Path, series: str) -> None:
    for old in _versions(path, series)[KEPT_VERSIONS:]:
        with contextlib.suppress(OSError):  # another process may be reading it, on Windows
            old.unlink()


def _variant(block: AnyRetrievalTool, embedder: Embedder | None) -> str:
    """Return what tells apart collections that are made in different ways."""
    identity = None if embedder is None else identity_of(embedder)
    return _mark(json.dumps([FORM, block.source, block.indexing(), identity], sort_keys=True).encode())[:8]


def _content_hash(files: Sequence[Path], folder: Path) -> str:
    # Names too, since passages carry them; a NUL cannot be in one, so no two lists give the same lines.
    lines = [f"{format_label(path, folder)}\0{_mark(read_content(path))}" for path in files]
    return _mark("\n".join(lines).encode("utf-8", "surrogateescape"))[:16]


def _mark(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def warnings_of(block: AnyRetrievalTool, embedder: Embedder | None) -> list[str]:
    """Say what of a tool's block has no effect, or not the one that is asked for."""
    warnings = [f"the tool {block.name}: {key} has no effect." for key in block.list_ignored_keys()]
    if embedder is None and needs_vectors(block):
        warnings.append(
            f"the tool {block.name} searches by words alone, since no embedder is named; give "
            "embedding_model or embedding_provider."
        )
    return warnings

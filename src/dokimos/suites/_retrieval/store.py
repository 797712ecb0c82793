"""A collection in one SQLite file: passages, their words and their vectors; written once, then only read."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import sys
import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dokimos.errors import JudgeReplyError
from dokimos.judges._embeddings import Vector, dot, format_vector, pack_vector, unit, unpack_vector
from dokimos.judges._protocol import JudgeReply
from dokimos.suites._retrieval.documents import Entry

if TYPE_CHECKING:
    from dokimos.judges._judge_calls import CallRequest

FORM: Final = 1
"""Raised when files of the last form cannot be used any more, or would be made otherwise."""
BUSY_SECONDS: Final = 30.0

_TABLES: Final = """
CREATE TABLE passage (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    headings TEXT NOT NULL,
    text TEXT NOT NULL,
    metadata TEXT NOT NULL,
    searched TEXT NOT NULL,
    digest BLOB NOT NULL,
    vector BLOB
);
CREATE INDEX by_digest ON passage (digest);
CREATE VIRTUAL TABLE words USING fts5 (content, content='', tokenize='porter unicode61 remove_diacritics 2');
"""
_NEAREST: Final = """
SELECT id, 1 - vec_distance_cosine(vector, ?) AS similarity FROM passage
ORDER BY similarity DESC, id LIMIT ?
"""
_MATCHING: Final = (
    "SELECT rowid, -bm25(words) AS score FROM words WHERE words MATCH ? ORDER BY score DESC, rowid LIMIT ?"
)
_UNSPACED: Final = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])")
"""Signs of languages without spaces, which are words of their own here."""
_WORD: Final = re.compile(r"\w+")


class Found(NamedTuple):
    """A passage's number, and how well it fits."""

    id: int
    score: float


class PassageFile:
    """The file of a collection, open."""

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        self.path = path
        # A finished file never changes: `immutable` does without locks, which some network folders lack.
        address = str(path) if writable else f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        # One connection, used by whatever worker thread is free.
        self._mutex = threading.RLock()
        self._database = sqlite3.connect(
            address, uri=not writable, timeout=BUSY_SECONDS, check_same_thread=False
        )
        _provide_distance(self._database)

    @classmethod
    def create(cls, path: Path, entries: Iterable[Entry], *, with_headings: bool) -> PassageFile:
        """Start a file with all passages, none of which has a vector yet."""
        file = cls(path, writable=True)
        try:
            file._insert(entries, with_headings=with_headings)
        except BaseException:
            file.close()
            raise
        return file

    def _insert(self, entries: Iterable[Entry], *, with_headings: bool) -> None:
        # One transaction for all passages: whoever continues after a kill finds all of them or none.
        with self._database as database:
            database.executescript(_TABLES)
            for number, entry in enumerate(entries, 1):
                searched = _storable(entry.search_text(with_headings=with_headings))
                row = (number, _storable(entry.source), json.dumps(entry.headings), _storable(entry.text),
                       _storable(json.dumps(dict(entry.metadata), ensure_ascii=False)), searched,
                       digest_of(searched))  # fmt: skip
                database.execute("INSERT INTO passage VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", row)
                words = _space_out(
                    "\n".join((*entry.headings, entry.text, *map(str, entry.metadata.values())))
                )
                database.execute(
                    "INSERT INTO words (rowid, content) VALUES (?, ?)", (number, _storable(words))
                )

    def __len__(self) -> int:
        return int(self._all("SELECT count(*) FROM passage")[0][0])

    @property
    def dimensions(self) -> int | None:
        """How long the vectors are, None where there are none."""
        rows = self._all("SELECT length(vector) FROM passage WHERE vector IS NOT NULL LIMIT 1")
        return rows[0][0] // 4 if rows else None

    def texts(self) -> list[str]:
        """Return what is embedded, of all passages."""
        return [text for (text,) in self._all("SELECT searched FROM passage ORDER BY id")]

    def list_unembedded(self, count: int) -> list[tuple[int, str]]:
        """Return the numbers and texts of the first passages that have no vector yet."""
        return self._all("SELECT id, searched FROM passage WHERE vector IS NULL ORDER BY id LIMIT ?", count)

    def fill(self, numbers: Iterable[int], vectors: Iterable[Vector]) -> None:
        """Give passages their vectors; they are on disk afterwards."""
        rows = [(pack_vector(unit(vector)), id) for id, vector in zip(numbers, vectors, strict=True)]
        with self._mutex, self._database as database:
            database.executemany("UPDATE passage SET vector = ? WHERE id = ?", rows)

    def vector_of(self, digest: bytes) -> Vector | None:
        """Return the vector of a text, by its digest."""
        rows = self._all("SELECT vector FROM passage WHERE digest = ? AND vector IS NOT NULL LIMIT 1", digest)
        return unpack_vector(rows[0][0]) if rows else None

    def nearest(self, vector: Vector, count: int) -> list[Found]:
        """Return the passages whose vectors are the most similar, by their cosine."""
        return [Found(*row) for row in self._all(_NEAREST, pack_vector(unit(vector)), count)]

    def matching(self, query: str, count: int, *, phrase: bool = False) -> list[Found]:
        """Return the passages with the most telling words of a query, or with all of it as one phrase."""
        words = _WORD.findall(_space_out(query))
        if not words:
            return []
        expression = (
            # In quotes, since bare words such as AND, NOT and NEAR are operators of FTS5.
            f'"{" ".join(words)}"' if phrase else " OR ".join(f'"{word}"' for word in dict.fromkeys(words))
        )
        return [Found(*row) for row in self._all(_MATCHING, expression, count)]

    def entry(self, id: int) -> Entry:
        """Return a passage."""
        row = self._all("SELECT source, text, headings, metadata FROM passage WHERE id = ?", id)[0]
        return Entry(row[0], row[1], tuple(json.loads(row[2])), json.loads(row[3]))

    def close(self) -> None:
        with self._mutex:
            self._database.close()

    def _all(self, query: str, *values: Any) -> list[Any]:
        with self._mutex:
            return self._database.execute(query, values).fetchall()


class KnownVectors:
    """The vectors of other files, as a call store: what was embedded for them is not embedded again."""

    def __init__(self, files: Sequence[PassageFile]) -> None:
        self._files = files

    async def get(self, key: str, request: CallRequest) -> JudgeReply | None:
        digest = digest_of(request.prompt)
        for file in self._files:
            vector = file.vector_of(digest)
            if vector is not None:
                return JudgeReply(format_vector(vector))
        return None

    async def put(self, key: str, request: CallRequest, reply: JudgeReply) -> None:
        """Keep nothing: the file that is being built does."""

    async def reject(self, key: str, request: CallRequest, unusable: JudgeReplyError) -> None:
        """Note nothing: what is of no use is not kept."""


def digest_of(text: str) -> bytes:
    """Return what tells texts apart."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _storable(text: str) -> str:
    """Return a text without halves of signs, which JSON and names of files may have and SQLite refuses."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _space_out(text: str) -> str:
    return _UNSPACED.sub(r" \1 ", text)


def _provide_distance(database: sqlite3.Connection) -> None:
    """Let SQL call `vec_distance_cosine`: sqlite-vec's, or Python's where it cannot be loaded.

    Many builds of Python leave out what SQLite needs to load extensions.
    """
    try:
        sqlite_vec: Any = import_module("sqlite_vec")
        database.enable_load_extension(True)
        try:
            sqlite_vec.load(database)
        finally:
            database.enable_load_extension(False)
    except (ImportError, AttributeError, sqlite3.Error):
        database.create_function("vec_distance_cosine", 2, _distance, deterministic=True)


def _distance(row: bytes, query: bytes) -> float:
    """Return 1 minus the cosine of two vectors of length 1."""
    return 1 - dot(_numbers(row), _query(query))


def _numbers(data: bytes) -> Sequence[float]:
    # Vectors are stored little-endian; where that is the machine's own order, nothing has to be copied.
    return memoryview(data).cast("f") if sys.byteorder == "little" else unpack_vector(data)


# SQLite calls the function once per row, always with the same query.
@lru_cache(maxsize=4)
def _query(data: bytes) -> Vector:
    return unpack_vector(data)

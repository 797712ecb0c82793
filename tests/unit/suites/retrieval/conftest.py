"""An embedder that needs no model, and collections in a folder of their own."""

import asyncio
import hashlib
import re

import pytest

from dokimos.judges._embeddings import FunctionEmbedder, as_embedder
from dokimos.suites._retrieval.collection import Collection, open_collection
from dokimos.suites._retrieval.schema import HierarchicalDocumentTool, VectorstoreTool

DIMENSIONS = 512


def hashed_words(texts):
    """Count the words of each text, each in a place of its own: equal words make texts alike."""
    vectors = []
    for text in texts:
        vector = [1e-3] * DIMENSIONS
        for word in re.findall(r"\w{3,}", text.lower()):
            digest = hashlib.blake2b(word.encode(), digest_size=4).digest()
            vector[int.from_bytes(digest, "big") % DIMENSIONS] += 1.0
        vectors.append(vector)
    return vectors


class Recorded:
    """Embeds by words, and remembers what it was asked."""

    identity = "words"

    def __init__(self, fails_after=None):
        self.texts = []
        self.fails_after = fails_after

    async def embed(self, texts):
        if self.fails_after is not None and len(self.texts) >= self.fails_after:
            raise ConnectionError("the model is gone")
        self.texts += texts
        return hashed_words(texts)


class Library:
    """Writes documents and opens collections of them."""

    def __init__(self, path):
        self.path = path / "suite"
        self.path.mkdir()
        self.cache = path / "cache"
        self.embedder = Recorded()

    def write(self, name, text):
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text) if isinstance(text, bytes) else target.write_text(text, encoding="utf-8")
        return target

    def open(self, embedder=..., **keys):
        kind = HierarchicalDocumentTool if keys.get("type") == "hierarchical_document" else VectorstoreTool
        block = kind.model_validate({"name": "kb", "source": "docs", **keys})
        chosen = self.embedder if embedder is ... else embedder
        return asyncio.run(open_collection(block, self.path, embedder=chosen, cache_dir=self.cache))

    def search(self, query, **keys):
        return asyncio.run(self.open(**keys).search(query))


@pytest.fixture(autouse=True)
def closed_collections(monkeypatch):
    """Close what a test has opened: Python complains of databases that are left open."""
    opened = []
    make = Collection.__init__

    def remembered(self, *arguments):
        make(self, *arguments)
        opened.append(self)

    monkeypatch.setattr(Collection, "__init__", remembered)
    yield
    for collection in opened:
        collection.close()


@pytest.fixture
def library(tmp_path):
    return Library(tmp_path)


@pytest.fixture
def words() -> FunctionEmbedder:
    return as_embedder(hashed_words)


@pytest.fixture
def recorded():
    """The class of embedders that remember what they were asked."""
    return Recorded

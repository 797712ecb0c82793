"""What it costs to build a collection of 10,000 passages and to search it.

Run with `python benchmarks/retrieval.py [PASSAGES]`. The vectors are made up, so that what is measured is all
but the model: reading, cutting, the index of words, the vectors' way to the disk, and searches. It says how
distances were worked out, since not every Python can load sqlite-vec.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from dokimos.suites._retrieval.collection import Collection, open_collection
from dokimos.suites._retrieval.schema import HierarchicalDocumentTool, VectorstoreTool

PASSAGES: Final = 10_000
DIMENSIONS: Final = (384, 1536)
FILES: Final = 100
WORDS: Final = [
    f"{first}{second}" for first in ("alpha", "beta", "gamma", "delta", "rho") for second in range(400)
]
ROUNDS: Final = 5
BUILD_BUDGET_MS: Final = 3.0
"""CPU for each passage."""
SEARCH_BUDGET: Final = 1.5
"""Seconds of CPU for a search, without the extension, at the greater number of dimensions."""


class Random:
    """Vectors that depend on the text alone."""

    batch_size = 128

    def __init__(self, dimensions: int) -> None:
        self.identity = f"random {dimensions}"
        self._dimensions = dimensions

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        chosen = random.Random(text).random()
        return [chosen + place % 7 for place in range(self._dimensions)]


def write_documents(folder: Path, passages: int) -> None:
    """Write Markdown whose sections are a passage each."""
    chosen = random.Random(7)
    (folder / "docs").mkdir()
    for number in range(FILES):
        sections = [
            f"## Section {number}.{place}\n\n{' '.join(chosen.choices(WORDS, k=60))}.\n"
            for place in range(passages // FILES)
        ]
        (folder / "docs" / f"{number:03}.md").write_text(
            "# Guide\n\n" + "\n".join(sections), encoding="utf-8"
        )


async def cpu(work: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    start = time.process_time()
    result = await work()
    return time.process_time() - start, result


async def measure(folder: Path, kind: type[Any], dimensions: int) -> tuple[float, float, float]:
    """Return the CPU for building a collection, opening it again, and a search."""
    block = kind(name=f"kb{dimensions}", source="docs")
    embedder = Random(dimensions)

    async def opened() -> Collection:
        return await open_collection(block, folder, embedder=embedder, cache_dir=folder / "cache")

    built, collection = await cpu(opened)
    again, collection = await cpu(opened)
    searches = [await cpu(lambda: collection.search("alpha7 gamma12 rho300")) for _ in range(ROUNDS)]
    print(
        f"{kind.__name__:26}{dimensions:6} {len(collection):8,} {built / len(collection) * 1000:10.3f} ms "
        f"{again * 1000:10.1f} ms {min(seconds for seconds, _ in searches) * 1000:10.1f} ms"
    )
    return built / len(collection), again, min(seconds for seconds, _ in searches)


def main() -> None:
    passages = int(sys.argv[1]) if len(sys.argv) > 1 else PASSAGES
    loads = hasattr(sqlite3.Connection, "enable_load_extension")
    print(f"distances by {'sqlite-vec' if loads else 'Python, which cannot load sqlite-vec here'}")
    print(f"{'CPU':26}{'dims':>6} {'passages':>8} {'build each':>13} {'open again':>13} {'search':>13}")
    figures = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_documents(folder, passages)
        for dimensions in DIMENSIONS:
            for kind in (HierarchicalDocumentTool, VectorstoreTool):
                figures.append(asyncio.run(measure(folder, kind, dimensions)))
    worst_build = max(build for build, _, _ in figures) * 1000
    worst_search = max(search for _, _, search in figures)
    print(f"budgets: {BUILD_BUDGET_MS} ms to build each, {SEARCH_BUDGET} s for a search of {PASSAGES:,}")
    raise SystemExit(0 if worst_build <= BUILD_BUDGET_MS and worst_search <= SEARCH_BUDGET else 1)


if __name__ == "__main__":
    main()

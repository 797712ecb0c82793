"""Retrieval over real documents, and collections that several processes build at once."""

import asyncio
import hashlib
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from dokimos.exporters._json import load_result
from dokimos.judges._embeddings import as_embedder
from dokimos.suites._retrieval.collection import open_collection
from dokimos.suites._retrieval.schema import HierarchicalDocumentTool, VectorstoreTool

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide"
EXAMPLE = ROOT / "examples" / "suite_retrieval"
QUESTIONS = {
    "cassettes.md": "How do I record and replay the answers of a judge with a cassette?",
    "statistics.md": "Which permutation or McNemar test compares paired runs?",
    "cost.md": "What does a price table say about cost and budget?",
    "opentelemetry.md": "Read spans of OpenTelemetry from OTLP",
    "simulation.md": "simulate users with personas in a conversation",
    "typed-data.md": "convert outputs to a typed dataclass",
    "pytest.md": "assert evaluations in a pytest test",
    "regression-gate.md": "accept a new baseline of the regression gate",
}


def hashed(texts):
    """Rare words count for more, by their length: an embedding that needs no model."""
    vectors = []
    for text in texts:
        vector = [1e-3] * 1024
        for word in re.findall(r"[a-z]{4,}", text.lower()):
            digest = hashlib.blake2b(word.rstrip("s").encode(), digest_size=4).digest()
            vector[int.from_bytes(digest, "big") % 1024] += len(word) - 3.0
        vectors.append(vector)
    return vectors


@pytest.mark.parametrize("kind", [VectorstoreTool, HierarchicalDocumentTool])
def test_the_guide_is_found_by_what_is_asked_of_it(kind, tmp_path):
    block = kind(name="guide", source=str(GUIDE), top_k=5)

    async def hits():
        collection = await open_collection(
            block, tmp_path, embedder=as_embedder(hashed), cache_dir=tmp_path / "cache"
        )
        found = {page: await collection.search(question) for page, question in QUESTIONS.items()}
        collection.close()
        return {page for page, each in found.items() if any(p.source.endswith(page) for p in each)}

    assert len(asyncio.run(hits())) >= len(QUESTIONS) - 1


def test_the_example_is_replayed_without_a_model_a_key_or_a_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    example = shutil.copytree(EXAMPLE, tmp_path / "example", ignore=shutil.ignore_patterns(".dokimos"))
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}

    done = subprocess.run(
        [sys.executable, "-m", "dokimos", "test", "run", "agent.yaml", "--replay", "cassette.jsonl",
         "-o", "report.json"],
        cwd=example, env={**environment, "DOKIMOS_OFFLINE": "1"}, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed, 0 failed" in done.stdout
    items = load_result(example / "report.json").item_results
    passages = items[0].actual_outputs["contexts"]
    assert any("180 euros in London, Zurich and Oslo" in text for text in passages)


PROGRAM = """
import asyncio, sys, time
from pathlib import Path
from dokimos.suites._retrieval.schema import VectorstoreTool
from dokimos.suites._retrieval.collection import open_collection

class Slow:
    identity = "slow"
    batch_size = 5

    async def embed(self, texts):
        await asyncio.sleep(0.02)
        with open(sys.argv[2], "a") as log:
            log.write("".join(f"{text}\\n" for text in texts))
        return [[1.0 + text.count(letter) for letter in "abcdefghijklmnop"] for text in texts]

async def main():
    folder = Path(sys.argv[1])
    block = VectorstoreTool(name="kb", source="docs")
    collection = await open_collection(block, folder, embedder=Slow(), cache_dir=folder / "cache")
    print(len(collection), (await collection.search("abba"))[0].text)

asyncio.run(main())
"""


def test_processes_that_open_a_collection_at_once_embed_it_once(tmp_path):
    (tmp_path / "docs").mkdir()
    texts = [f"text number {number} of {'ab' * (number % 7 + 1)}" for number in range(60)]
    for number, text in enumerate(texts):
        (tmp_path / "docs" / f"{number}.txt").write_text(text, encoding="utf-8")
    log = tmp_path / "log"
    program = textwrap.dedent(PROGRAM)

    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path), str(log)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    printed = {process.communicate(timeout=60)[0] for process in started}

    assert [process.returncode for process in started] == [0, 0, 0]
    assert len(printed) == 1
    assert printed.pop().startswith("60 ")
    embedded = [line for line in log.read_text().splitlines() if line != "abba"]
    assert sorted(embedded) == sorted(texts)
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".sqlite"]


def test_what_a_killed_process_has_embedded_is_not_embedded_again(tmp_path):
    (tmp_path / "docs").mkdir()
    for number in range(40):
        (tmp_path / "docs" / f"{number}.txt").write_text(f"text {number}", encoding="utf-8")
    log = tmp_path / "log"
    program = textwrap.dedent(PROGRAM).replace(
        "import open_collection", "import open_collection\nfrom dokimos.suites._retrieval import collection"
    )
    death = 'if "text 30" in texts:\n            import os; os._exit(9)\n        with open'
    dying = program.replace("with open", death).replace(
        "asyncio.run(main())", "collection.EMBEDDED_AT_ONCE = 5\nasyncio.run(main())"
    )

    killed = subprocess.run([sys.executable, "-c", dying, str(tmp_path), str(log)], check=False)
    before = log.read_text().splitlines()
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), str(log)], check=True, stdout=subprocess.PIPE
    )
    after = [line for line in log.read_text().splitlines() if line != "abba"]

    assert killed.returncode == 9
    assert 0 < len(before) < 40
    assert sorted(after) == sorted(f"text {number}" for number in range(40))

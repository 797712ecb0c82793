"""Which embedder a suite means."""

import asyncio

import pytest

from dokimos.errors import ConfigurationError
from dokimos.judges._embeddings import FunctionEmbedder, embed
from dokimos.suites._metric_schema import ModelBlock
from dokimos.suites._retrieval.embedders import embedder_for, embedder_named
from dokimos.suites._retrieval.schema import HierarchicalDocumentTool, VectorstoreTool

OPENAI = ModelBlock(provider="openai", name="gpt-5-mini")
OLLAMA = ModelBlock(provider="ollama", name="qwen3", endpoint="http://box:11434")
AZURE = ModelBlock(
    provider="azure_openai", name="chat", endpoint="https://me.example.com", api_version="2025-01-01"
)
ANTHROPIC = ModelBlock(provider="anthropic", name="claude-sonnet-5")
BGE = ModelBlock(provider="ollama", name="bge-m3")


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)


def named(library, name=None, **blocks):
    found = embedder_named(name, library.path, **blocks)
    return None if found is None else found.identity


@pytest.mark.parametrize(
    ("name", "blocks", "identity"),
    [
        ("openai:m", {}, "embeddings of openai m at https://api.openai.com/v1"),
        ("http://box/v1#m", {"provider": BGE}, "embeddings of openai m at http://box/v1"),
        ("m", {"model": OPENAI}, "embeddings of openai m at https://api.openai.com/v1"),
        ("m", {"provider": BGE, "model": OPENAI}, "embeddings of ollama m at http://127.0.0.1:11434"),
        (None, {"provider": BGE, "model": OPENAI}, "embeddings of ollama bge-m3 at http://127.0.0.1:11434"),
        (None, {"model": OPENAI}, "embeddings of openai text-embedding-3-small at https://api.openai.com/v1"),
        (None, {"model": OLLAMA}, "embeddings of ollama nomic-embed-text at http://box:11434"),
        ("bge:latest", {"model": OLLAMA}, "embeddings of ollama bge:latest at http://box:11434"),
        ("e", {"model": AZURE}, "embeddings of azure e at https://me.example.com"),
        (None, {"provider": "ollama:m"}, "embeddings of ollama m at http://127.0.0.1:11434"),
        (None, {"model": ANTHROPIC}, None),
        (None, {}, None),
    ],
)
def test_a_name_and_a_provider_make_an_embedder(library, name, blocks, identity):
    assert named(library, name, **blocks) == identity


@pytest.mark.parametrize(
    ("name", "blocks", "message"),
    [
        ("m", {}, "the embedding model 'm' needs a provider: give embedding_provider"),
        ("m", {"model": ANTHROPIC}, "the embedding model 'm' needs a provider"),
        (None, {"provider": ANTHROPIC}, "Anthropic offers no embeddings"),
        ("anthropic:m", {}, "Anthropic offers no embeddings"),
        (None, {"model": AZURE}, "name the embedding_model: the deployment"),
        ("gone.py:embed", {}, "'gone.py:embed' cannot be imported"),
    ],
)
def test_what_names_no_embedder_is_refused(library, name, blocks, message):
    with pytest.raises(ConfigurationError, match=message):
        named(library, name, **blocks)


@pytest.mark.parametrize(
    ("name", "provider"),
    [("own_vectors.py:embed", OLLAMA), ("own_vectors:embed", None), (None, "own_vectors.py:embed")],
)
def test_a_function_of_the_suite_embeds_offline(library, name, provider):
    library.write("own_vectors.py", "def embed(texts):\n    return [[1.0, float(len(t))] for t in texts]\n")

    made = embedder_named(name, library.path, provider=provider)

    assert isinstance(made, FunctionEmbedder)
    assert list(asyncio.run(embed(made, ["four"]))[0]) == [1.0, 4.0]


def test_dimensions_are_not_for_functions(library):
    block = VectorstoreTool(name="kb", source="x", embedding_model="own.py:embed", embedding_dimensions=3)

    with pytest.raises(ConfigurationError, match=r"own\.py:embed decides them itself"):
        embedder_for(block, library.path, provider=None, model=None)


def test_a_tool_that_looks_for_words_needs_no_embedder(library):
    block = HierarchicalDocumentTool(
        name="kb", source="x", search_mode="keyword", embedding_model="gone.py:f"
    )

    assert embedder_for(block, library.path, provider=None, model=OPENAI) is None


def test_the_dimensions_of_a_tool_are_asked_for(library):
    block = VectorstoreTool(name="kb", source="x", embedding_dimensions=256)

    assert embedder_for(block, library.path, provider=None, model=OPENAI).dimensions == 256


def test_the_vectors_of_a_function_are_kept_until_its_file_changes(library):
    path = library.write(
        "growing.py", "SIZE = 2\ndef embed(texts):\n    return [[1.0] * SIZE for _ in texts]\n"
    )
    first = named(library, "growing.py:embed")
    path.write_text(path.read_text().replace("SIZE = 2", "SIZE = 3"))

    assert first.startswith("growing.py:embed#")
    assert named(library, "growing.py:embed") != first


def test_an_object_that_can_be_called_embeds_too(library):
    library.write(
        "model.py",
        "class Model:\n    def __call__(self, texts):\n        return [[1.0, 2.0] for _ in texts]\n"
        "made = Model()\n",
    )

    made = embedder_named("model.py:made", library.path)

    assert list(asyncio.run(embed(made, ["x"]))[0]) == [1.0, 2.0]

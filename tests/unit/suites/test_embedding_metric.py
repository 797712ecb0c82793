"""The metric embedding_similarity of a suite."""

import pytest

from dokimos.errors import ConfigurationError

EMBED = """
def embed(texts):
    return [[1.0 + text.count("a"), 1.0 + text.count("b")] for text in texts]
"""
SUITE = """
agent: app:echo
{provider}
evaluations:
  metrics:
    - type: {family}
      {metric}
test_cases:
  - input: aab
    ground_truth: aab
"""


@pytest.fixture
def suites(folder):
    folder.write("own_embedding.py", EMBED)
    return folder


def suite_of(metric, family="standard", provider=""):
    return SUITE.format(family=family, metric=metric, provider=provider)


@pytest.mark.parametrize(
    ("metric", "family", "provider"),
    [
        ("metric: embedding_similarity", "standard", "embedding_provider: own_embedding.py:embed"),
        ("metric: embedding_similarity\n      embedder: own_embedding.py:embed", "standard", ""),
        ("name: embedding_similarity", "evaluator", "embedding_provider: own_embedding.py:embed"),
        ("name: embedding_similarity\n      params: {embedder: 'own_embedding:embed'}", "evaluator", ""),
    ],
)
def test_the_embedder_is_that_of_the_metric_or_of_the_suite(suites, metric, family, provider):
    item = suites.item(suite_of(metric, family, provider))

    (result,) = item.eval_results
    assert (result.name, result.error) == ("Embedding Similarity", None)
    assert result.score == pytest.approx(1.0)
    assert result.success is None


def test_a_threshold_decides(suites):
    metric = "metric: embedding_similarity\n      threshold: 0.99"

    item = suites.item(suite_of(metric, provider="embedding_provider: own_embedding.py:embed"))

    assert item.success is True


def test_a_model_block_names_the_embedder(suites):
    model = "{provider: ollama, name: nomic-embed-text, endpoint: 'http://box:11434'}"

    loaded = suites.suite(suite_of(f"metric: embedding_similarity\n      model: {model}"))

    inner = loaded.cases[0].evaluators[0].inner
    assert inner.embedder.identity == "embeddings of ollama nomic-embed-text at http://box:11434"
    assert loaded.warnings == ()


def test_the_key_of_the_embedder_is_asked_for_before_anything_runs(suites, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    provider = "embedding_provider: {provider: openai, name: text-embedding-3-small}"

    loaded = suites.suite(suite_of("metric: embedding_similarity", provider=provider))

    with pytest.raises(
        ConfigurationError, match="openai text-embedding-3-small needs a key: set OPENAI_API_KEY"
    ):
        loaded.check_keys()


def test_without_an_embedder_the_metric_is_refused_with_its_place(suites):
    with pytest.raises(
        ConfigurationError, match=r"agent\.yaml:6:.* this metric needs an embedder: name a model"
    ):
        suites.suite(suite_of("metric: embedding_similarity"))


def test_a_provider_that_is_wrong_is_refused_with_its_place(suites):
    with pytest.raises(ConfigurationError, match=r"agent\.yaml:3:.*Did you mean 'openai'.*not 'opnai'"):
        suites.suite(
            suite_of(
                "metric: embedding_similarity", provider="embedding_provider: {provider: opnai, name: m}"
            )
        )

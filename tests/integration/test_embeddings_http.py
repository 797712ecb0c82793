"""Embedders against a server that speaks their protocols and misbehaves on demand."""

import asyncio

import pytest

from dokimos import Budget, Dataset, Example, Experiment
from dokimos._core.results import RunStatus
from dokimos._http import backoff
from dokimos.errors import ConfigurationError, JudgeReplyError, JudgeUnavailableError
from dokimos.evaluators import EmbeddingSimilarity
from dokimos.judges._embedding_models import embedder
from dokimos.judges._embeddings import embed
from dokimos.judges._prices import Prices, Rate
from dokimos.judges._run_scope import counting_usage

KEY = "sk-test-0123456789abcdef"
PROTOCOLS = ["openai", "ollama", "azure"]
VARIABLES = (
    "OPENAI_API_KEY", "OPENAI_BASE_URL", "OLLAMA_HOST", "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY",
    "AZURE_OPENAI_API_VERSION", "DOKIMOS_OFFLINE", "HTTP_PROXY", "http_proxy",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(backoff, "FIRST_BACKOFF", 0.01)


def embedder_at(server, protocol="openai", **settings):
    base = f"{server.url}/v1" if protocol == "openai" else server.url
    return embedder(f"{protocol}:tiny", base_url=base, **{"api_key": KEY, **settings})


def embedded(model, *texts):
    async def inside():
        with counting_usage() as usage:
            return await embed(model, texts), usage.metrics

    return asyncio.run(inside())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_gives_one_vector_for_each_text_in_order(server, scripted, protocol):
    found, metrics = embedded(embedder_at(server, protocol), "one two", "three")

    expected = [scripted.vector_of(text, 16) for text in ("one two", "three")]
    assert [list(vector) for vector in found] == [pytest.approx(vector) for vector in expected]
    assert (metrics.tokens_in, metrics.tokens_out, metrics.model) == (6, 0, "tiny")
    assert metrics.latency_ms > 0


@pytest.mark.parametrize(
    ("protocol", "path"),
    [
        ("openai", "/v1/embeddings"),
        ("ollama", "/api/embed"),
        ("azure", "/openai/deployments/tiny/embeddings"),
    ],
)
def test_requests_go_where_they_belong(server, protocol, path):
    embedded(embedder_at(server, protocol, dimensions=4), "one")

    (received,) = server.received
    assert received.path == path
    assert received.body["input"] == ["one"]
    assert received.body["dimensions"] == 4
    assert received.body.get("truncate") is (False if protocol == "ollama" else None)


def test_many_texts_go_in_batches_side_by_side(server):
    server.latency = 0.02

    found, metrics = embedded(embedder_at(server, batch_size=10), *(f"text {n}" for n in range(95)))

    assert len(found) == 95
    assert len(server.received) == 10
    assert server.busiest > 1
    assert metrics.tokens_in == 285


def test_a_price_table_says_what_it_cost(server):
    prices = Prices({"tiny": Rate(20.0, 0.0)})

    _, metrics = embedded(embedder_at(server, prices=prices), "one", "two")

    assert metrics.cost_usd == pytest.approx(6 * 20 / 1e6)


def test_failures_are_tried_again(server, scripted):
    server.then(scripted.too_many(0.01), scripted.cut(), scripted.status(500))

    found, _ = embedded(embedder_at(server), "one")

    assert len(found) == 1
    assert len(server.received) == 4


def test_a_refused_key_is_an_error_that_does_not_show_it(server):
    server.key = "sk-the-right-one"

    with pytest.raises(JudgeUnavailableError, match="openai tiny: 401 Unauthorized") as caught:
        embedded(embedder_at(server), "one")
    assert KEY not in str(caught.value)


def test_a_missing_key_names_its_variable():
    with pytest.raises(ConfigurationError, match="set OPENAI_API_KEY"):
        embedded(embedder("openai:text-embedding-3-small"), "one")


def test_dimensions_that_the_model_ignores_are_an_error(server, scripted):
    server.then(scripted.raw('{"data": [{"index": 0, "embedding": [1, 2, 3]}]}'))

    with pytest.raises(JudgeReplyError, match="asked for 2 dimensions, it gave 3"):
        embedded(embedder_at(server, dimensions=2), "one")


@pytest.mark.parametrize("content", ['{"data": []}', '{"data": [{"index": 0}]}', '{"object": "x"}', "[]"])
def test_an_answer_without_vectors_is_an_error(server, scripted, content):
    server.then(scripted.raw(content))

    with pytest.raises(JudgeReplyError, match="the server's reply holds no answer"):
        embedded(embedder_at(server), "one")


def test_a_recorded_run_is_replayed_without_a_server(server, tmp_path, monkeypatch):
    data = Dataset([Example.of(f"the cat {number}", "a cat sat") for number in range(5)])
    cassette = tmp_path / "vectors.jsonl"
    address = f"{server.url}/v1#tiny"

    def run(mode):
        similarity = EmbeddingSimilarity(embedder=embedder(address))
        plan = Experiment(data, str, [similarity], progress=False, cassette=cassette, cassette_mode=mode)
        result = plan.run(journal=False)
        return [(item.eval_results[0].score, item.eval_results[0].error) for item in result.item_results]

    recorded = run("record")
    asked = len(server.received)
    replayed = run("replay")

    assert replayed == recorded
    assert len(server.received) == asked
    assert len(cassette.read_text().splitlines()) == 6


def test_a_resumed_run_pays_for_no_vector_twice(server, tmp_path):
    data = Dataset([Example.of(f"the cat {number}", "a cat sat") for number in range(6)])
    similarity = EmbeddingSimilarity(embedder=embedder(f"{server.url}/v1#tiny"))
    plan = Experiment(data, str, [similarity], progress=False, run_dir=tmp_path / "runs")

    first = plan.run(budget=Budget(max_calls=3))
    again = plan.run(resume=first.run_id)

    asked = [text for received in server.received for text in received.body["input"]]
    assert first.status is RunStatus.BUDGET_SPENT
    assert sorted(asked) == sorted(["a cat sat", *(f"the cat {number}" for number in range(6))])
    assert [item.eval_results[0].error for item in again.item_results] == [None] * 6

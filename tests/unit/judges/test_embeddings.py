"""Embedders, and the one way to ask them."""

import asyncio
import math

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos import Budget, CallMetrics, Dataset, Example, Experiment
from dokimos._core.results import RunStatus
from dokimos.errors import ConfigurationError, JudgeReplyError
from dokimos.evaluators import EmbeddingSimilarity
from dokimos.judges._embedding_models import HttpEmbedder, embedder
from dokimos.judges._embeddings import (
    Embeddings,
    FunctionEmbedder,
    as_embedder,
    cosine,
    embed,
    pack_vector,
    unit,
    unpack_vector,
)
from dokimos.judges._openai import AzureOpenAI, OpenAIChat
from dokimos.judges._run_scope import RunScope, counting_usage, enter_scope

KEY = "sk-test-0123456789abcdef"
vectors = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=20).filter(
    lambda numbers: any(abs(number) > 1e-3 for number in numbers)
)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OLLAMA_HOST", "AZURE_OPENAI_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


class Counting:
    """Embeds a text as its length and its vowels, and counts."""

    identity = "counting"

    def __init__(self, *, batch_size=128, concurrency=1, delay=0.0):
        self.batch_size = batch_size
        self.concurrency = concurrency
        self.delay = delay
        self.batches = []
        self.busy = self.busiest = 0

    async def embed(self, texts):
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        self.batches.append(list(texts))
        await asyncio.sleep(self.delay)
        self.busy -= 1
        rows = [[float(len(text)), 1.0 + sum(map(text.count, "aeiou"))] for text in texts]
        return Embeddings(rows, CallMetrics(len(texts), 0, cost_usd=0.01 * len(texts)))


class Memory:
    """A call store that keeps everything."""

    def __init__(self):
        self.replies = {}

    async def get(self, key, request):
        return self.replies.get(key)

    async def put(self, key, request, reply):
        self.replies[key] = reply

    async def reject(self, key, request, unusable):
        raise AssertionError("nothing was of no use")


def embedded(model, texts, **scope):
    async def inside():
        enter_scope(RunScope(**scope))
        with counting_usage() as usage:
            return await embed(model, texts), usage

    return asyncio.run(inside())


def test_vectors_come_in_the_order_of_the_texts():
    found, _ = embedded(Counting(batch_size=2), ["aaa", "b", "cc"])

    assert [list(vector) for vector in found] == [[3.0, 4.0], [1.0, 1.0], [2.0, 1.0]]


def test_equal_texts_are_asked_for_once():
    model = Counting()

    found, usage = embedded(model, ["one", "two", "one"])

    assert model.batches == [["one", "two"]]
    assert found[0] == found[2]
    assert usage.metrics == CallMetrics(2, 0, cost_usd=0.02)


def test_batches_are_limited_by_number_and_by_characters(monkeypatch):
    monkeypatch.setattr("dokimos.judges._embeddings.MOST_CHARACTERS", 10)
    model = Counting(batch_size=3)

    embedded(model, ["a", "b", "c", "d", "e" * 9, "f" * 30, "g"])

    assert model.batches == [["a", "b", "c"], ["d", "e" * 9], ["f" * 30], ["g"]]


def test_as_many_batches_at_once_as_the_embedder_allows():
    alone, several = Counting(batch_size=1, delay=0.01), Counting(batch_size=1, concurrency=3, delay=0.01)

    embedded(alone, ["a", "b", "c", "d"])
    embedded(several, ["a", "b", "c", "d"])

    assert (alone.busiest, several.busiest) == (1, 3)


def test_what_a_store_knows_is_not_asked_again():
    store, model = Memory(), Counting()
    first, _ = embedded(model, ["one", "two"], call_stores=(store,))

    again, usage = embedded(model, ["two", "three", "one"], call_stores=(store,))

    assert model.batches == [["one", "two"], ["three"]]
    assert again[0] == first[1]
    assert usage.metrics.cost_usd == pytest.approx(0.03), "the store says that this run has paid for them"


def test_an_earlier_store_learns_what_a_later_one_knows():
    early, late, model = Memory(), Memory(), Counting()
    embedded(model, ["one"], call_stores=(late,))

    embedded(model, ["one"], call_stores=(early, late))

    assert early.replies == late.replies
    assert len(model.batches) == 1


def test_repeats_of_a_run_share_vectors():
    store, model = Memory(), Counting()
    for repeat in range(3):
        embedded(model, ["one"], call_stores=(store,), run_index=repeat)

    assert len(model.batches) == 1


def test_a_text_that_somebody_is_asking_for_is_not_asked_again():
    model = Counting(delay=0.02)

    async def inside():
        enter_scope(RunScope(in_flight={}))
        await asyncio.gather(embed(model, ["one", "two"]), embed(model, ["two", "three"]))

    asyncio.run(inside())

    assert sorted(text for batch in model.batches for text in batch) == ["one", "three", "two"]


def test_a_request_that_failed_when_nobody_waited_any_more_is_made_again():
    class FailsOnce(Counting):
        async def embed(self, texts):
            embeddings = await super().embed(texts)
            if len(self.batches) == 1:
                asked.set()
                await gone.wait()
                raise ConnectionError("cut")
            return embeddings

    asked, gone = asyncio.Event(), asyncio.Event()
    counting = FailsOnce()

    async def retry_keys():
        scope = RunScope(in_flight={})
        enter_scope(scope)
        waiter = asyncio.ensure_future(embed(counting, ["one"]))
        await asked.wait()
        [sent] = scope.in_flight.values()
        waiter.cancel()
        await asyncio.wait([waiter])
        gone.set()
        await asyncio.wait([sent])
        return len(await embed(counting, ["one"]))

    assert asyncio.run(retry_keys()) == 1


def test_a_request_goes_on_when_its_waiter_is_cancelled():
    store, model = Memory(), Counting()

    async def inside():
        asked, may_answer, embed_at_once = asyncio.Event(), asyncio.Event(), model.embed

        async def embed_when_told(texts):
            asked.set()
            await may_answer.wait()
            return await embed_at_once(texts)

        model.embed = embed_when_told
        enter_scope(RunScope(call_stores=(store,), in_flight={}))
        waiter = asyncio.create_task(embed(model, ["one"]))
        await asked.wait()
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        may_answer.set()
        return await embed(model, ["one"])

    asyncio.run(asyncio.wait_for(inside(), 60))

    assert len(model.batches) == 1
    assert len(store.replies) == 1


def test_a_budget_counts_requests_and_ends_them():
    data = Dataset([Example.of(f"text {number}", f"words {number}") for number in range(10)])
    model = Counting()

    result = Experiment(
        data,
        lambda text: text,
        [EmbeddingSimilarity(embedder=model)],
        progress=False,
        budget=Budget(max_calls=4),
    ).run(journal=False)

    assert len(model.batches) == 4
    assert result.status is RunStatus.BUDGET_SPENT


def test_an_answer_of_no_use_is_paid_for():
    class Useless:
        async def embed(self, texts):
            raise JudgeReplyError("It is not JSON.", metrics=CallMetrics(cost_usd=0.5))

    result = Experiment(
        Dataset([Example.of("a", "b")]),
        str,
        [EmbeddingSimilarity(embedder=Useless())],
        progress=False,
    ).run(journal=False)

    assert result.item_results[0].eval_results[0].metrics.cost_usd == 0.5


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([[1.0, 2.0]], "gave 1 vectors for 2 texts"),
        ([[1.0], [1.0, 2.0]], "vectors of different lengths: 1, 2"),
        ([[1.0], [0.0]], "zero or not finite"),
        ([[1.0], [math.nan]], "zero or not finite"),
        ([[1.0], []], "an empty vector"),
        ([[1.0], ["x"]], "for a vector"),
        ([[1.0], None], "for a vector"),
    ],
)
def test_an_answer_that_is_no_vectors_is_an_error(answer, message):
    with pytest.raises(JudgeReplyError, match=message):
        embedded(as_embedder(lambda texts: answer), ["one", "two"])


def test_an_answer_of_no_use_is_not_kept():
    store = Memory()
    with pytest.raises(JudgeReplyError):
        embedded(as_embedder(lambda texts: [[0.0]]), ["one"], call_stores=(store,))

    assert store.replies == {}


def test_every_failed_batch_is_taken_notice_of(caplog):
    class Failing(Counting):
        async def embed(self, texts):
            raise RuntimeError(f"no {texts[0]}")

    with pytest.raises(RuntimeError, match="no a"):
        embedded(Failing(batch_size=1), ["a", "b", "c"])

    assert caplog.records == []


def test_functions_are_embedders_sync_and_async_and_of_arrays():
    async def slow(texts):
        return [[1.0, 2.0] for _ in texts]

    plain, _ = embedded(as_embedder(lambda texts: numpy.ones((len(texts), 3), dtype="float32")), ["a", "b"])
    awaited, _ = embedded(as_embedder(slow), ["a"])

    assert [list(vector) for vector in plain] == [[1.0] * 3] * 2
    assert list(awaited[0]) == [1.0, 2.0]


def test_an_embedder_is_taken_as_it_is():
    model = Counting()

    assert as_embedder(model) is model
    assert isinstance(as_embedder("ollama:nomic-embed-text"), HttpEmbedder)
    assert isinstance(as_embedder(len), FunctionEmbedder)


@pytest.mark.parametrize(("given_value", "message"), [(Counting, "is a class"), (7, "must be a model")])
def test_what_is_no_embedder_is_refused(given_value, message):
    with pytest.raises(ConfigurationError, match=message):
        as_embedder(given_value)


def test_names_make_embedders(monkeypatch):
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.example.com")
    openai, azure = embedder("openai:text-embedding-3-small", api_key=KEY), embedder("azure:dep")
    server = embedder("http://box:8000/v1#org/model")

    assert type(openai.endpoint) is OpenAIChat
    assert type(azure.endpoint) is AzureOpenAI
    assert (server.endpoint.url, server.endpoint.model) == ("http://box:8000/v1", "org/model")
    assert embedder("ollama:bge:latest").endpoint.model == "bge:latest"


def test_the_identity_names_model_and_dimensions_and_never_the_key():
    short = embedder("openai:m", dimensions=256, api_key=KEY)

    assert short.identity == "embeddings of openai m at https://api.openai.com/v1 (dimensions=256)"
    assert short.identity != embedder("openai:m").identity
    assert KEY not in repr(short)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("anthropic:m", {}, "Anthropic offers no embeddings"),
        ("opnai:m", {}, "Unknown provider 'opnai'.* Did you mean 'openai'"),
        ("openai:", {}, "does not name a model"),
        ("http://box/v1", {}, "does not name a model"),
        ("openai:m", {"temperature": 1}, "An embedder has no setting 'temperature'"),
        ("openai:m", {"base_ulr": "x"}, "Did you mean 'base_url'"),
        ("openai:m", {"dimensions": 0}, "dimensions must be at least 1"),
        ("openai:m", {"batch_size": 1.5}, "batch_size must be at least 1"),
    ],
)
def test_a_name_or_setting_that_means_nothing_is_refused(name, settings, message):
    with pytest.raises(ConfigurationError, match=message):
        embedder(name, **settings)


@given(vectors)
def test_a_vector_is_read_back_as_it_was_packed(numbers):
    vector = unit(numbers)

    assert unpack_vector(pack_vector(vector)) == vector


@given(vectors, st.floats(0.1, 10))
def test_the_cosine_ignores_the_length(numbers, factor):
    assert cosine(numbers, [factor * number for number in numbers]) == pytest.approx(1.0)
    assert cosine(numbers, [-number for number in numbers]) == pytest.approx(-1.0)


def test_the_cosine_of_a_right_angle_is_zero():
    assert cosine([1.0, 0.0], [0.0, 5.0]) == 0.0

"""Texts as vectors: the embedder protocol, and `embed`, which caches, deduplicates and batches texts."""

from __future__ import annotations

import asyncio
import math
import sys
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import mul
from typing import Any, Final, Protocol, TypeAlias, cast, runtime_checkable

from dokimos._core.metrics import CallMetrics
from dokimos._core.text import quote
from dokimos._runtime.user_calls import call_user_function
from dokimos.errors import ConfigurationError, JudgeReplyError
from dokimos.judges._judge_calls import (
    CallRequest,
    CallStore,
    call_within_budget,
    find_cached_reply,
    store_reply,
)
from dokimos.judges._protocol import JudgeReply, check_metrics, identity_of
from dokimos.judges._run_scope import RunScope, current_scope

Vector: TypeAlias = "array[float]"

BATCH_SIZE: Final = 128
"""Texts in one request, unless the embedder has a `batch_size`."""
MOST_CHARACTERS: Final = 200_000
"""Characters in one request, unless a single text has more."""
_FORM: Final = "f32:"
"""The prefix of a vector as text: 32-bit numbers in hexadecimal digits, which do not look like a secret."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    """One vector for each text, in their order, and what they cost."""

    vectors: Sequence[Sequence[float]]
    metrics: CallMetrics | None = None


@runtime_checkable
class Embedder(Protocol):
    """A model that turns texts into vectors.

    An implementation may also have an `identity`, a string that names endpoint, model and parameters: vectors
    are cached under it. `batch_size` is how many texts it takes per request, `concurrency` how many requests
    may run at once (1 unless given).
    """

    async def embed(self, texts: Sequence[str]) -> Embeddings | Sequence[Sequence[float]]:
        """Return one vector for each text, all of one length.

        Raises:
            JudgeUnavailableError: when no answer could be had.
        """
        ...


EmbedderLike: TypeAlias = Embedder | Callable[[list[str]], Any] | Callable[[list[str]], Awaitable[Any]] | str
"""An embedder, a function (sync or async) of a list of texts, or a model: "openai:text-embedding-3-small"."""


@dataclass(frozen=True, slots=True)
class FunctionEmbedder:
    """A plain function as an embedder; a sync function is called in a thread."""

    function: Callable[[list[str]], Any]
    name: str = ""
    """The name under which vectors are cached; the function's identity unless given."""

    @property
    def identity(self) -> str:
        return self.name or identity_of(self.function)

    async def embed(self, texts: Sequence[str]) -> Embeddings | Sequence[Sequence[float]]:
        return cast(
            "Embeddings | Sequence[Sequence[float]]", await call_user_function(self.function, list(texts))
        )


def as_embedder(embedder: EmbedderLike) -> Embedder:
    """Return an embedder for a model name, a function or an embedder.

    Raises:
        ConfigurationError: for anything else.
    """
    if isinstance(embedder, str):
        from dokimos.judges._embedding_models import embedder as from_name

        return from_name(embedder)
    if isinstance(embedder, type):  # it has the methods of its objects, and would pass for one of them below
        raise ConfigurationError(f"{embedder.__name__} is a class; give an instance of it as the embedder.")
    if isinstance(embedder, Embedder):
        return embedder
    if callable(embedder):
        return FunctionEmbedder(embedder)
    raise ConfigurationError(
        "An embedder must be a model such as 'openai:text-embedding-3-small', an Embedder or a function, "
        f"not {embedder!r:.80}."
    )


async def embed(
    embedder: Embedder, texts: Sequence[str], *, stores: Sequence[CallStore] | None = None
) -> list[Vector]:
    """Return the vectors of texts, requesting only those that are in no store.

    Equal texts are deduplicated, and requests for texts that are already in flight are coalesced. A request
    that has been sent continues if the caller that waits for it is cancelled, so that its vectors are stored.

    Args:
        embedder: The embedder to ask.
        texts: The texts to embed; a blank text has no meaning, and most models refuse it.
        stores: The caches to look up and to store in; the run's own stores unless given.

    Raises:
        JudgeReplyError: if vectors are missing, of different lengths, not finite or zero.
        JudgeUnavailableError: if the embedder cannot be reached, or a replayed cassette lacks a text.
        BudgetExceededError: if the run's budget does not allow the call.
    """
    scope = current_scope()
    calls = _Calls(embedder, tuple(scope.call_stores if stores is None else stores), scope)
    return await calls.vectors(texts)


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the cosine of two vectors, -1..1."""
    length = math.sqrt(dot(left, left) * dot(right, right))
    return max(-1.0, min(1.0, dot(left, right) / length))


def dot(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the sum of the products of two vectors."""
    return float(sum(map(mul, left, right)))


def unit(vector: Sequence[float]) -> Vector:
    """Return a vector of length 1 in the same direction."""
    length = math.sqrt(dot(vector, vector))
    return array("f", [value / length for value in vector])


def pack_vector(vector: Vector) -> bytes:
    """Return a vector as 32-bit numbers, the same on every machine."""
    if sys.byteorder == "little":
        return vector.tobytes()
    swapped = vector[:]
    swapped.byteswap()
    return swapped.tobytes()


def unpack_vector(data: bytes) -> Vector:
    """Return a packed vector. Raises `ValueError` if the data are not 32-bit numbers."""
    vector = array("f")
    vector.frombytes(data)
    if sys.byteorder != "little":
        vector.byteswap()
    return vector


class _Calls:
    """One call of `embed`: the stores first, then requests in batches."""

    def __init__(self, embedder: Embedder, stores: tuple[CallStore, ...], scope: RunScope) -> None:
        self._embedder = embedder
        self._identity = identity_of(embedder)
        self._stores = stores
        self._scope = scope
        self._turns = asyncio.Semaphore(getattr(embedder, "concurrency", 1))

    async def vectors(self, texts: Sequence[str]) -> list[Vector]:
        vectors: dict[str, Vector] = {}
        missing = []
        for text in dict.fromkeys(texts):
            # A vector does not change from repeat to repeat, so all of them share it.
            request = CallRequest(cast("Any", self._embedder), text, None, repeat=0, sample=0)
            cached = await find_cached_reply(self._stores, request)
            if cached is None:
                missing.append(request)
            else:
                vectors[text] = self._parse_stored(cached.text)
        vectors |= await self._request_missing(missing) if missing else {}
        self._check_lengths(vectors.values())
        return [vectors[text] for text in texts]

    async def _request_missing(self, missing: Sequence[CallRequest]) -> dict[str, Vector]:
        loop = asyncio.get_running_loop()
        in_flight: dict[str, asyncio.Future[Any]] = (
            {} if self._scope.in_flight is None else self._scope.in_flight
        )
        to_request = [
            request
            for request in missing
            # A future of another event loop cannot be awaited in this one.
            if request.key not in in_flight or in_flight[request.key].get_loop() is not loop
        ]
        for batch in _batches(to_request, getattr(self._embedder, "batch_size", BATCH_SIZE)):
            sent = loop.create_task(self._batch(batch))
            sent.add_done_callback(partial(_forget_batch, in_flight, batch))
            in_flight.update((request.key, sent) for request in batch)
        awaited = {request.key: in_flight[request.key] for request in missing}
        await asyncio.wait(set(awaited.values()))
        return {request.prompt: awaited[request.key].result()[request.key] for request in missing}

    async def _batch(self, batch: Sequence[CallRequest]) -> dict[str, Vector]:
        async with self._turns:
            texts = [request.prompt for request in batch]
            answer = await call_within_budget(lambda: self._call_embedder(texts), self._identity, self._scope)
        vectors = self._validate_vectors(answer.vectors, len(batch))
        # The request has one cost: it goes with the first text, and the others come from it for nothing.
        first = answer.metrics or CallMetrics()
        costs = [first, *[CallMetrics()] * (len(batch) - 1)]
        replies = [
            JudgeReply(format_vector(vector), cost) for vector, cost in zip(vectors, costs, strict=True)
        ]
        if self._stores:
            puts = (store_reply(self._stores, *each) for each in zip(batch, replies, strict=True))
            await asyncio.gather(*puts)
        return {request.key: vector for request, vector in zip(batch, vectors, strict=True)}

    async def _call_embedder(self, texts: list[str]) -> Embeddings:
        answer = await self._embedder.embed(texts)
        if not isinstance(answer, Embeddings):
            return Embeddings(answer)
        check_metrics(answer.metrics, self._embedder)
        return answer

    def _validate_vectors(self, given: object, count: int) -> list[Vector]:
        if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
            raise JudgeReplyError(f"{self._identity} gave {type(given).__name__}, not a list of vectors.")
        vectors = [self._validate_vector(vector) for vector in given]
        if len(vectors) != count:
            raise JudgeReplyError(f"{self._identity} gave {len(vectors)} vectors for {count} texts.")
        return vectors

    def _validate_vector(self, vector: Iterable[float]) -> Vector:
        try:
            numbers = array("f", vector)
        except (TypeError, ValueError, OverflowError) as error:
            raise JudgeReplyError(
                f"{self._identity} gave {quote(str(vector))} for a vector: {error}."
            ) from None
        if not numbers or not all(map(math.isfinite, numbers)) or not any(numbers):
            what = "an empty vector" if not numbers else "a vector that is zero or not finite"
            raise JudgeReplyError(f"{self._identity} gave {what}, which has no direction.")
        return numbers

    def _check_lengths(self, vectors: Iterable[Vector]) -> None:
        lengths = sorted({len(vector) for vector in vectors})
        if len(lengths) > 1:
            raise JudgeReplyError(
                f"{self._identity} gave vectors of different lengths: {', '.join(map(str, lengths))}. "
                "If the model was changed under the same name, record its cassette or build its index again."
            )

    def _parse_stored(self, text: str) -> Vector:
        try:
            if text.startswith(_FORM):
                return unpack_vector(bytes.fromhex(text.removeprefix(_FORM)))
        except ValueError:
            pass
        raise JudgeReplyError(f"The cached embedding of {self._identity} is not a vector: {quote(text)}.")


def format_vector(vector: Vector) -> str:
    """Return a vector as text, as call stores hold it."""
    return f"{_FORM}{pack_vector(vector).hex()}"


def _batches(requests: Sequence[CallRequest], most: int) -> Iterator[list[CallRequest]]:
    batch: list[CallRequest] = []
    characters = 0
    for request in requests:
        characters += len(request.prompt)
        if batch and (len(batch) == most or characters > MOST_CHARACTERS):
            yield batch
            batch, characters = [], len(request.prompt)
        batch.append(request)
    if batch:
        yield batch


def _forget_batch(
    in_flight: dict[str, asyncio.Future[Any]], batch: Iterable[CallRequest], task: asyncio.Task[Any]
) -> None:
    """Remove a batch from the requests in flight, and retrieve an error for which nobody waits any more."""
    for request in batch:
        in_flight.pop(request.key, None)
    if not task.cancelled():
        task.exception()

"""What the process of a run and its worker processes say to each other.

Each message is the number of a job and a pickled tuple, so that one that cannot be read back still says whose
it is.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, NamedTuple

from dokimos._core.error_detail import ErrorDetail
from dokimos._core.eval_result import EvalResult
from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos.errors import BudgetExceededError

NO_JOB: Final = 0
"""The number of messages that are about the worker itself."""
READY: Final = "ready"
FAILED: Final = "failed"
END: Final = "end"
RECALL: Final = "recall"
"""Give a job back unless it has begun; about several jobs at once, so with `NO_JOB`."""
RETURNED: Final = "returned"
RAISED: Final = "raised"
"""What ended the work on a job, and would have ended a run in one process."""
UNREADABLE: Final = "unreadable"
PRINTED: Final = "printed"
"""What the worker has printed: the name of the stream, and the text."""
OUTCOME: Final = "outcome"
DONE: Final = "done"
NUMBER_BYTES: Final = 8


class Job(NamedTuple):
    """An item that a worker is to work on."""

    run_index: int
    example: Example
    evaluators: tuple[int, ...]
    """Places among the evaluators that the worker knows."""
    input_keys: frozenset[str] | None = None
    """The names of inputs that decide how the task is called, None where its signature does."""
    outputs: Mapping[str, Any] | None = None
    """What the task returned, None where the worker is to call it."""
    metrics: CallMetrics | None = None


def _fields_of(kind: type[Any]) -> tuple[str, ...]:
    return tuple(member.name for member in fields(kind))


_FIELDS: Final[dict[type[Any], tuple[str, ...]]] = {
    kind: _fields_of(kind) for kind in (Example, EvalResult, CallMetrics, ErrorDetail)
}


def _restore(kind: type[Any], values: tuple[Any, ...]) -> Any:
    restored = object.__new__(kind)
    for name, value in zip(_FIELDS[kind], values, strict=True):
        object.__setattr__(restored, name, value)
    return restored


def _reducer(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what pickles the values of each item in a third of the time that dataclasses take."""
    values_of = attrgetter(*_FIELDS[kind])
    return lambda value: (_restore, (kind, values_of(value)))


_REDUCERS: Final = copyreg.dispatch_table | {kind: _reducer(kind) for kind in _FIELDS}


class AsksModelError(BudgetExceededError):
    """Code in a worker process would ask a model, which only the process of the run may.

    The run keeps one account, one cache and one pace for all calls of models. It is a `BudgetExceededError`
    since neither tasks nor evaluators turn one into an error of the item.
    """


def encode(number: int, message: tuple[Any, ...]) -> bytes:
    """Return the bytes of a message. Raises whatever pickling it raises."""
    buffer = io.BytesIO()
    buffer.write(number.to_bytes(NUMBER_BYTES, "big"))
    pickler = pickle.Pickler(buffer, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = _REDUCERS
    pickler.dump(message)
    return buffer.getvalue()


def decode_number(data: bytes) -> int:
    """Return the number of the job that a message is about."""
    return int.from_bytes(data[:NUMBER_BYTES], "big")


def decode(data: bytes) -> tuple[Any, ...]:
    """Return the tuple of a message. Raises whatever unpickling it raises."""
    message: tuple[Any, ...] = pickle.loads(memoryview(data)[NUMBER_BYTES:])
    return message

"""The protocol over standard input and output: one message in each line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

from dokimos._mcp.protocol import (
    INVALID_REQUEST,
    Endpoint,
    Message,
    ProtocolError,
    encode_message,
    error_reply,
    is_request,
    parse_message,
)

MOST_BYTES: Final = 4 * 2**20
"""The longest line that is read."""
_INPUT, _OUTPUT, _ERRORS = 0, 1, 2


@contextlib.contextmanager
def claim_standard_streams() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Yield what the client writes and reads; inside, what others print goes to standard error.

    A suite, a plugin or a subprocess that prints would break the messages, and one that reads would take
    them.
    """
    source, sink = os.dup(_INPUT), os.dup(_OUTPUT)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, _INPUT)
    os.close(nowhere)
    os.dup2(_ERRORS, _OUTPUT)
    reader, writer = os.fdopen(source, "rb"), os.fdopen(sink, "wb", buffering=0)
    try:
        yield reader, writer
    finally:
        os.dup2(sink, _OUTPUT)
        # Not closed: a thread may be reading, and holds the lock of the file until the client writes.


async def serve_stream(endpoint: Endpoint, source: BinaryIO, sink: BinaryIO) -> None:
    """Answer the messages of a client until it closes its side; calls go on at the same time.

    At the end, calls that may cost money are cancelled, since nobody waits for them any more; the others are
    answered.
    """
    await _Conversation(endpoint, sink).carry_on(source)


class _Conversation:
    """One client: its calls under way, and the one way back to it."""

    def __init__(self, endpoint: Endpoint, sink: BinaryIO) -> None:
        self._endpoint = endpoint
        self._sink = sink
        self._calls: dict[str | int, tuple[asyncio.Task[None], bool]] = {}

    async def carry_on(self, source: BinaryIO) -> None:
        lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        # A daemon, so that a read that never returns does not keep the process alive.
        threading.Thread(
            target=_read_lines, args=(source, lambda line: loop.call_soon_threadsafe(lines.put_nowait, line)),
            name="dokimos-mcp-input", daemon=True,
        ).start()  # fmt: skip
        while (line := await lines.get()) is not None:
            self._take(line)
        for task, spends in list(self._calls.values()):
            if spends:
                task.cancel()
        await asyncio.gather(*(task for task, _ in self._calls.values()), return_exceptions=True)

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            if len(line) > MOST_BYTES:
                raise ProtocolError(INVALID_REQUEST, f"A message may have at most {MOST_BYTES:,} bytes.")
            message = parse_message(line)
        except ProtocolError as error:
            self._send(error_reply(None, error))
            return
        if is_request(message):
            self._start(message)
        elif message.get("method") == "notifications/cancelled":
            self._cancel(message)

    def _start(self, message: Message) -> None:
        id_ = message["id"]
        key = id_ if isinstance(id_, str | int) else repr(id_)
        if key in self._calls:
            # Without its id: the client would take this for the answer to the first one.
            problem = f"A request with the id {key!r:.80} is under way."
            self._send(error_reply(None, ProtocolError(INVALID_REQUEST, problem)))
            return
        task = asyncio.get_running_loop().create_task(self._answer(message))
        self._calls[key] = (task, self._endpoint.spends(message))
        task.add_done_callback(lambda _: self._calls.pop(key, None))

    async def _answer(self, message: Message) -> None:
        self._send(await self._endpoint.answer(message, self._send))

    def _cancel(self, message: Message) -> None:
        params = message.get("params")
        id_ = params.get("requestId") if isinstance(params, dict) else None
        call = self._calls.get(id_) if isinstance(id_, str | int) else None
        if call is not None:
            call[0].cancel()

    def _send(self, message: Message) -> None:
        with contextlib.suppress(BrokenPipeError):  # a client that has gone closes its other side, too
            view = memoryview(encode_message(message) + b"\n")
            while view:
                view = view[self._sink.write(view) :]


def _read_lines(source: BinaryIO, put: Callable[[bytes | None], object]) -> None:
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # the loop has ended, or the stream
        while line := source.readline(MOST_BYTES + 1):
            put(line)
            while len(line) > MOST_BYTES and not line.endswith(b"\n"):
                line = source.readline(MOST_BYTES + 1)  # the rest of a line that is refused
        put(None)

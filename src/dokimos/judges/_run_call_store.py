"""The call store of one run: a cache of judge replies, each on disk before it is used: none is paid twice."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, BinaryIO, Final

from dokimos._core.metrics import CallMetrics
from dokimos._core.text import format_list
from dokimos._runtime.redaction import Redactor, secret_redactor
from dokimos.errors import JudgeReplyError
from dokimos.judges._protocol import JudgeReply
from dokimos.judges._recording import UNUSABLE, Recording, recording_line

if TYPE_CHECKING:
    from dokimos.judges._judge_calls import CallRequest

CALLS_FILE: Final = "calls.jsonl"
_LINE_START: Final = b'{"key":"'
_KEY_SLICE: Final = slice(len(_LINE_START), len(_LINE_START) + 32)
_UNUSABLE_MARK: Final = f'","{UNUSABLE}":'.encode()
_REJECTED: Final = _UNUSABLE_MARK + b"true}\n"
"""What follows the key on a line that only says of an earlier one that its reply was of no use."""
MOST_IDENTITIES: Final = 256
PAUSE_SECONDS: Final = 0.005
LONGEST_PAUSE_SECONDS: Final = 0.01
"""Between two syncs, for each reply of the last one, and at most.

Where many replies arrive at once, more of them share a sync, which costs as much CPU as writing ten; judges
that are asked one by one wait the short time, and next to a reply of a model ten milliseconds are nothing.
With eight calls at once of 20 ms each, two milliseconds for each reply took a tenth more CPU, and ten took a
sixth longer in all.
"""
GATHER_SECONDS: Final = 0.002
MOST_GATHERINGS: Final = 3
MANY_REPLIES: Final = 5
"""A sync waits so long for further replies, again while more arrive, where so many have just shared one.

Calls that were begun together are answered together, as fast as the replies before them are dealt with.
Without this the first of them got a sync of its own, after which the rest never caught up with it: eight
calls at once of 20 ms each took a tenth more CPU, and as long in all. With one such wait they still fell
apart into two groups: 78 syncs for 400 calls, which take 65 so, and 1.8 s instead of 1.9. Where each takes a
time of its own, it gains nothing: done after any two replies that shared a sync, it made a run of eight such
calls at once, of 10 to 50 ms, a tenth longer; as it is, no longer.
"""
_NEVER_SYNCED: Final = (errno.EINVAL, errno.ENOTSUP)
"""What fsync says of files that cannot be synced at all, such as those of some mounted file systems."""


class RunCallStore:
    """A cache of judge replies: an append-only file with one line per reply, and an index of it in memory.

    A reply is handed to the operating system as soon as it arrives, so that a killed process loses none;
    `put` returns once it is on disk. The first reply creates the file.
    """

    def __init__(self, path: Path, *, clean: Redactor | None = None) -> None:
        self.problem: str | None = None
        self._path = path
        self._clean = secret_redactor() if clean is None else clean
        self._offsets: dict[bytes, int] = {}
        self._identities: dict[str, str] = {}
        """Identities of judges without their secrets, by those with them."""
        self._unusable: set[bytes] = set()
        self._size = 0
        self._mutex = threading.Lock()
        self._syncer: _Syncer | None = None
        self._reader: BinaryIO | None = None
        self._closed = False
        self._unreadable: list[int] = []
        """Numbers of the damaged lines."""
        if path.exists():
            self._scan()

    def __len__(self) -> int:
        return len(self._offsets)

    async def get(self, key: str, request: CallRequest) -> JudgeReply | None:
        raw_key = bytes.fromhex(key)
        if request.is_retry or raw_key not in self._offsets:
            return None
        await self._until_on_disk(raw_key)
        recording = self._read(raw_key)
        if recording is None:
            return None
        if recording.unusable is not None:
            raise JudgeReplyError(recording.unusable, metrics=recording.reply.metrics)
        return recording.reply

    async def put(self, key: str, request: CallRequest, reply: JudgeReply) -> None:
        raw_key = bytes.fromhex(key)
        if request.is_retry or raw_key not in self._offsets:
            judge = self._redact_identity(request.identity)
            synced = self._append(recording_line(request, reply, self._clean, judge=judge), raw_key)
            if synced is not None:
                await synced
        else:
            await self._until_on_disk(raw_key)

    def _redact_identity(self, identity: str) -> str:
        redacted = self._identities.get(identity)
        if redacted is None:
            if len(self._identities) >= MOST_IDENTITIES:
                self._identities.clear()
            redacted = self._identities[identity] = self._clean(identity)
        return redacted

    async def reject(self, key: str, request: CallRequest, unusable: JudgeReplyError) -> None:
        if unusable.metrics is not None:
            cost = JudgeReply("", unusable.metrics)
            await self._write(Recording.of(request, cost, self._clean, unusable=str(unusable)).to_line())
        elif bytes.fromhex(key) not in self._unusable:
            await self._write(_LINE_START + key.encode() + _REJECTED)

    def recordings(self) -> Iterator[Recording]:
        """Yield the last usable reply of every call."""
        for key in list(self._offsets):
            recording = self._read(key)
            if recording is not None and recording.unusable is None:
                yield recording

    def costs(self) -> Iterator[tuple[str, CallMetrics]]:
        """Yield the judge and the cost of every reply that was paid for, unusable replies included."""
        if not self._size:
            return
        with self._path.open("rb") as file:
            for line in file:
                with contextlib.suppress(ValueError):
                    recording = Recording.from_line(line)
                    # Replies that came from elsewhere cost this run nothing, and have no metrics.
                    if recording.reply.metrics is not None:
                        yield recording.judge, recording.reply.metrics

    def unusable_keys(self) -> set[str]:
        """Return the keys of the calls whose last reply was unusable."""
        return {key.hex() for key in self._unusable}

    def warnings(self) -> list[str]:
        """Return what is wrong with the file, in sentences."""
        sentences = [self.problem] if self.problem is not None else []
        if self._unreadable:
            sentences.append(
                f"Damaged lines of {self._path} were ignored: {format_list(sorted(self._unreadable))}."
            )
        return sentences

    def close(self) -> None:
        """Wait for the disk and close the file; later replies are not stored."""
        with self._mutex:
            self._closed = True
            syncer, self._syncer = self._syncer, None
            reader, self._reader = self._reader, None
        if syncer is not None:
            syncer.close()
        if reader is not None:
            reader.close()

    def _scan(self) -> None:
        """Index the calls by the start of their lines, without parsing the replies."""
        offset = 0
        with self._path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break  # cut short by a kill: nobody has used that reply
                if not self._index_line(line, offset):
                    self._unreadable.append(number)
                offset += len(line)
            # A process that was killed may have written a reply that nothing has synced since.
            with contextlib.suppress(OSError):
                os.fsync(file.fileno())
        self._size = offset

    def _index_line(self, line: bytes, offset: int) -> bool:
        """Enter a line into the index by its key. Return False if it has no key."""
        try:
            key = bytes.fromhex(line[_KEY_SLICE].decode("ascii"))
        except ValueError:
            key = b""
        if not line.startswith(_LINE_START) or len(key) != 16:
            return False
        after = line[_KEY_SLICE.stop :]
        if after != _REJECTED:
            self._offsets[key] = offset
        if after.startswith(_UNUSABLE_MARK):
            self._unusable.add(key)
        else:
            self._unusable.discard(key)
        return True

    async def _until_on_disk(self, key: bytes) -> None:
        """Wait for the sync of a reply that another thread or an enclosing call has written just now."""
        while True:
            with self._mutex:
                syncer = self._syncer
                if syncer is None or self._offsets.get(key, -1) < syncer.synced:
                    return
                synced = syncer.until_synced()
            await synced

    async def _write(self, line: bytes) -> None:
        synced = self._append(line)
        if synced is not None:
            await synced

    def _append(self, line: bytes, reply_key: bytes | None = None) -> asyncio.Future[None] | None:
        """Append a line: the reply to the call `reply_key`, or else one that is indexed by its own text."""
        with self._mutex:
            if self._closed or self.problem is not None:
                return None
            try:
                syncer = self._syncer or self._open()
                syncer.write(line)
            except OSError as error:
                self._give_up(error)
                return None
            if reply_key is None:
                self._index_line(line, self._size)
            else:
                self._offsets[reply_key] = self._size
                self._unusable.discard(reply_key)
            self._size += len(line)
            return syncer.until_synced()

    def _open(self) -> _Syncer:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        # For the owner alone: prompts and replies quote what users ask of the application.
        file = os.open(self._path, flags, 0o600)
        os.ftruncate(file, self._size)  # a line cut short by a kill must not become part of the next one
        self._syncer = _Syncer(file, self._size, self._give_up)
        return self._syncer

    def _read(self, key: bytes) -> Recording | None:
        with self._mutex:
            offset = self._offsets.get(key)
            if offset is None or (self._closed and self._reader is None):
                return None
            if self._reader is None:
                self._reader = self._path.open("rb", buffering=0)
            line = _line_at(self._reader, offset)
        try:
            recording = Recording.from_line(line)
            if recording.key != key.hex():
                raise ValueError("it belongs to another call")
        except ValueError:
            self._unreadable.append(self._number_at(offset))
            self._offsets.pop(key, None)
            return None
        return recording

    def _number_at(self, offset: int) -> int:
        with self._path.open("rb") as file:
            return file.read(offset).count(b"\n") + 1

    def _give_up(self, error: OSError) -> None:
        self.problem = (
            f"Judge replies can no longer be written to {self._path} ({error}). A resumed run would "
            "ask for them again."
        )


class EarlierCallStore:
    """The replies of an earlier run as a cache: they cost this run nothing. Unusable ones are retried."""

    def __init__(self, path: Path, *, is_usable: Callable[[str], bool] = lambda identity: True) -> None:
        self.outputs_reused = 0
        self._calls = RunCallStore(path)
        self._unusable = self._calls.unusable_keys()
        self._is_usable = is_usable
        """Whether a judge of this identity is still what it was."""

    async def get(self, key: str, request: CallRequest) -> JudgeReply | None:
        if request.is_retry or key in self._unusable or not self._is_usable(request.identity):
            return None
        try:
            reply = await self._calls.get(key, request)
        except JudgeReplyError:
            return None
        if reply is None:
            return None
        self.outputs_reused += 1
        return replace(reply, metrics=None)

    async def put(self, key: str, request: CallRequest, reply: JudgeReply) -> None:
        """Store nothing: an earlier run is never changed."""

    async def reject(self, key: str, request: CallRequest, unusable: JudgeReplyError) -> None:
        """Record nothing: an earlier run is never changed."""

    def close(self) -> None:
        self._calls.close()


def _line_at(file: BinaryIO, offset: int) -> bytes:
    file.seek(offset)
    chunks: list[bytes] = []
    while chunk := file.read(1 << 16):
        end = chunk.find(b"\n")
        if end >= 0:
            return b"".join([*chunks, chunk[: end + 1]])
        chunks.append(chunk)
    return b"".join(chunks)


class _Syncer:
    """Writes at once and syncs in a thread: one fsync covers all that was written before it began."""

    def __init__(self, file: int, size: int, on_problem: Callable[[OSError], None]) -> None:
        self.synced = self._written = size
        """How much of the file is on disk."""
        self._file = file
        self._on_problem = on_problem
        self._arrived: SimpleQueue[asyncio.Future[None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="dokimos-calls", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        written = os.write(self._file, data)
        while written < len(data):
            written += os.write(self._file, data[written:])
        self._written += len(data)

    def until_synced(self) -> asyncio.Future[None]:
        """Return a future that is done once everything written so far is on disk."""
        future = asyncio.get_running_loop().create_future()
        self._arrived.put(future)
        return future

    def close(self) -> None:
        self._arrived.put(None)  # the last one
        self._thread.join()
        with contextlib.suppress(OSError):
            os.close(self._file)

    def _loop(self) -> None:
        is_open = True
        recent = 0  # how many replies shared a sync; as many less as there were syncs since
        next_sync = 0.0  # begins no earlier
        while is_open:
            arrived = [self._arrived.get()]
            # Only now, and in one piece: each time that this thread wakes takes as long as writing a reply.
            wait = max(next_sync - time.monotonic(), 0.0)
            if arrived != [None]:
                if wait:
                    time.sleep(wait)
                if recent >= MANY_REPLIES:
                    self._gather(recent)
            # No other thread takes from the queue, so what is counted here is there.
            arrived += [self._arrived.get() for _ in range(self._arrived.qsize())]
            waiting = [future for future in arrived if future is not None]
            is_open = len(waiting) == len(arrived)
            if waiting:
                self._sync()
                pause = min(len(waiting) * PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
                next_sync = time.monotonic() + pause
                recent = max(len(waiting), recent - 1)
                _wake(waiting)

    def _gather(self, expected: int) -> None:
        """Wait until as many replies have arrived as are expected, for as long as they keep arriving."""
        arrived = 0  # not 1: the first one, alone, may be just before the others
        for _ in range(MOST_GATHERINGS):
            time.sleep(GATHER_SECONDS)
            before, arrived = arrived, self._arrived.qsize() + 1
            if arrived >= expected or arrived == before:
                return

    def _sync(self) -> None:
        written = self._written
        try:
            os.fsync(self._file)
        except OSError as error:
            if error.errno not in _NEVER_SYNCED:
                self._on_problem(error)
        self.synced = written


def _wake(waiting: Iterable[asyncio.Future[None]]) -> None:
    """Wake each loop once for all that wait on it."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for future in waiting:
        by_loop.setdefault(future.get_loop(), []).append(future)
    for loop, futures in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
            loop.call_soon_threadsafe(_resolve, futures)


def _resolve(futures: Iterable[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)

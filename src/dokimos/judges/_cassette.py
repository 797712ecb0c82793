"""Cassettes: judge replies recorded in a file beside the code, to replay a run without a judge."""

from __future__ import annotations

import atexit
import difflib
import os
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from dokimos._runtime.file_lock import hold_lock
from dokimos._runtime.redaction import Redactor, secret_redactor
from dokimos.errors import ConfigurationError, JudgeReplyError, JudgeUnavailableError
from dokimos.judges._cassette_mode import CassetteMode
from dokimos.judges._fencing import MARKER
from dokimos.judges._optional_protocols import WithLogprobs
from dokimos.judges._protocol import JsonSchemaDict, JudgeLike, JudgeLM, JudgeReply, as_judge, identity_of
from dokimos.judges._recording import Recording

if TYPE_CHECKING:
    from dokimos.judges._judge_calls import CallRequest, CallStore

SHOWN_MARKER: Final = "{marker}"
MOST_DIFFS: Final = 20
"""How many misses show the nearest recording; finding it compares all recordings."""
MOST_DIFF_LINES: Final = 30
LONGEST_DIFF: Final = 1500
SAVE_SECONDS: Final = 1.0
"""How often the cassette of a judge is saved while it grows."""


class Cassette:
    """A file of recordings, one per line, sorted by key, without anything that changes between recordings."""

    def __init__(
        self, path: str | Path, mode: CassetteMode = "auto", *, clean: Redactor | None = None
    ) -> None:
        if mode not in get_args(CassetteMode):
            raise ConfigurationError(f"A cassette's mode is record, replay or auto, not {mode!r}.")
        self.path: Path = Path(path)
        self.mode = mode
        self._clean = secret_redactor() if clean is None else clean
        self._last_state = _file_state(self.path)
        """The file's state when it was last read or written by this process."""
        self._recorded = self._load()
        self._new: dict[str, Recording] = {}
        """Recordings made since."""
        self._mutex = threading.Lock()
        self._dirty = False
        self._misses = 0

    async def get(self, key: str, request: CallRequest) -> JudgeReply | None:
        # A replay asks nobody, so the recording is all that there is.
        if request.is_retry and self.mode != "replay":
            return None
        recording = self._new.get(key)
        if recording is None and self.mode != "record":
            recording = self._recorded.get(key)
        if recording is not None:
            return recording.reply
        if self.mode == "replay":
            raise JudgeUnavailableError(self._miss_message(request))
        return None

    async def put(self, key: str, request: CallRequest, reply: JudgeReply) -> None:
        # Without metrics, since a replayed reply costs nothing.
        unpaid = replace(reply, metrics=None)
        self._add(Recording.of(request, unpaid, self._clean))

    async def reject(self, key: str, request: CallRequest, unusable: JudgeReplyError) -> None:
        """Keep the reply, so that a replay fails in the same way."""

    def adopt(self, recordings: Iterable[Recording]) -> None:
        """Add the recordings of an earlier process of the same run."""
        if self.mode != "replay":
            for recording in recordings:
                if self.mode == "record" or recording.key not in self._recorded:
                    self._add(recording)

    def save(self, *, whole: bool = False) -> None:
        """Write the file atomically; a `whole` recording drops what this run did not ask for.

        If another process has written the file meanwhile, its recordings are kept and nothing is dropped.

        Raises:
            OSError: if the file cannot be written.
        """
        whole = whole and self.mode == "record"
        with self._mutex:
            if not self._dirty and not whole:
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with hold_lock(self.path.with_name(f".{self.path.name}.lock")):
                alone = _file_state(self.path) == self._last_state
                earlier = {} if whole and alone else self._load()
                _write(self.path, earlier | self._new)
                self._last_state = _file_state(self.path)
            self._dirty = False

    def _add(self, recording: Recording) -> None:
        # The placeholder has characters that no editor shows, and cassettes are read in reviews.
        readable = replace(recording, prompt=recording.prompt.replace(MARKER, SHOWN_MARKER))
        with self._mutex:
            self._new[recording.key] = readable
            self._dirty = True

    def _load(self) -> dict[str, Recording]:
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            if self.mode == "replay":
                raise ConfigurationError(
                    f"There is no cassette {self.path} to replay; record it with mode='record'."
                ) from None
            return {}
        return {recording.key: recording for recording in _read(self.path, lines)}

    def _miss_message(self, request: CallRequest) -> str:
        requested = Recording.of(request, JudgeReply(""), self._clean)
        requested = replace(requested, prompt=requested.prompt.replace(MARKER, SHOWN_MARKER))
        head = f"The cassette {self.path} has no recording of this call of {requested.judge}"
        advice = "record it again with mode='record', or mode='auto' to add what is missing"
        self._misses += 1
        if self._misses > MOST_DIFFS:
            return f"{head}; {advice}. The first misses show the nearest recordings."
        nearest = _nearest(requested, self._recorded.values())
        if nearest is None:
            return f"{head}: it is empty; {advice}."
        return (
            f"{head}; {advice}. The nearest recording differs as follows:\n{_difference(nearest, requested)}"
        )


class _OwnCassette(Cassette):
    """The cassette of a judge, saved while it grows, since nothing says when it is complete."""

    def __init__(self, path: Path, mode: CassetteMode) -> None:
        super().__init__(path, mode)
        self._saved_at = time.monotonic()
        atexit.register(self.save)

    async def put(self, key: str, request: CallRequest, reply: JudgeReply) -> None:
        await super().put(key, request, reply)
        now = time.monotonic()
        if now - self._saved_at >= SAVE_SECONDS:
            self._saved_at = now
            self.save()


@dataclass(frozen=True, slots=True, repr=False)
class CassetteJudge:
    """A judge with its own cassette; created by `with_cassette`."""

    judge: JudgeLM
    cassette: Cassette

    def __repr__(self) -> str:
        return f"<{self.identity} with {self.cassette.path}>"

    @property
    def identity(self) -> str:
        return identity_of(self.judge)

    @property
    def call_stores(self) -> tuple[CallStore, ...]:
        """The stores that are looked up before the run's stores and before the judge is asked."""
        return (self.cassette,)

    async def complete(self, prompt: str, *, schema: JsonSchemaDict | None = None) -> JudgeReply:
        from dokimos.judges._judge_calls import complete, is_inside_call_of

        if is_inside_call_of(self.cassette):
            return await self.judge.complete(prompt, schema=schema)
        return await complete(self, prompt, schema=schema)

    def with_logprobs(self, top: int = 5) -> CassetteJudge:
        """Return this judge asking for token probabilities, if it supports them."""
        inner = self.judge
        return replace(self, judge=inner.with_logprobs(top)) if isinstance(inner, WithLogprobs) else self

    def save(self) -> None:
        """Save the cassette now; it is also saved once a second while it grows, and at exit."""
        self.cassette.save()


_open: Final[dict[tuple[Path, str], _OwnCassette]] = {}


def with_cassette(judge: JudgeLike, path: str | Path, mode: CassetteMode = "auto") -> CassetteJudge:
    """Return a judge with its own cassette, independent of the run that asks it.

    Judges that name the same file share it. `record` replaces the replies to what is asked and keeps the rest
    of the file, since a judge cannot know when everything has been asked.

    Raises:
        ConfigurationError: if there is nothing to replay, or the file cannot be read.
    """
    key = (Path(path).resolve(), mode)
    if key not in _open:
        _open[key] = _OwnCassette(*key)
    return CassetteJudge(as_judge(judge), _open[key])


def _file_state(path: Path) -> tuple[int, int, int] | None:
    """Return a value that changes whenever the file is written, None if there is no file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _read(path: Path, lines: Iterable[bytes]) -> Iterator[Recording]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            recording = Recording.from_line(line)
        except ValueError as problem:
            raise ConfigurationError(
                f"{path}:{number}: this line of the cassette cannot be read ({problem}); record it again."
            ) from None
        yield recording


def _write(path: Path, recordings: dict[str, Recording]) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            for key in sorted(recordings):
                file.write(recordings[key].to_line(stable=True))
        # mkstemp makes files for their owner alone, and a cassette is committed and read by others.
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _nearest(requested: Recording, recordings: Iterable[Recording]) -> Recording | None:
    """Return the recording with the most words of the prompt, preferably of the same judge."""
    words = set(requested.prompt.split())

    def likeness(other: Recording) -> tuple[bool, float, bool]:
        theirs = set(other.prompt.split())
        shared = len(words & theirs) / max(len(words | theirs), 1)
        return other.judge == requested.judge, shared, other.repeat == requested.repeat

    return max(recordings, key=likeness, default=None)


def _difference(recorded: Recording, requested: Recording) -> str:
    lines = list(
        difflib.unified_diff(
            _format_recording(recorded), _format_recording(requested), "recorded", "asked", lineterm="", n=1
        )
    )
    text = "\n".join(line[:200] for line in lines[:MOST_DIFF_LINES])
    cut = len(lines) > MOST_DIFF_LINES or len(text) > LONGEST_DIFF
    return text[:LONGEST_DIFF] + ("\n…" if cut else "")


def _format_recording(recording: Recording) -> list[str]:
    return [
        f"judge: {recording.judge}",
        f"repeat: {recording.repeat}, sample: {recording.sample}, schema: {recording.schema}",
        *recording.prompt.splitlines(),
    ]

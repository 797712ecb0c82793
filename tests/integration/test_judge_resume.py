"""Processes that are killed while they judge: no reply that had arrived is asked for again."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dokimos.experiment._run_loading import load_run
from dokimos.judges._run_call_store import RunCallStore

ITEMS = 16
PARALLELISM = 6
CALLS_PER_ITEM = (
    4  # one by the first evaluator, two, one after the other, by the second, one that is of no use
)
MOST_CALLS = 3 * PARALLELISM
KILLS = {"alone": 12, "server": 50}
MOST_BEFORE_KILL = 24
"""Calls that a process may send before it is killed: half of a run."""
JITTER = 0.008
"""Seconds, about twice what a call takes, within which it is killed after that."""

PROGRAM = """
# Forks a process for each run named on its input, and prints its number, or how it ended.
import asyncio, os, sys
from pathlib import Path
from dokimos import CallMetrics, Dataset, Example, Experiment
from dokimos.errors import JudgeReplyError
from dokimos.evaluators._function import evaluator
from dokimos.judges._judge_calls import complete
from dokimos.judges._factory import judge
from dokimos.judges._protocol import JudgeReply

ITEMS, PARALLELISM, MOST_CALLS = map(int, sys.argv[1:4])
KIND, URL = sys.argv[4:]
NOTES = -1

def note(what, question):
    os.write(NOTES, f"{what} {question}\\n".encode())

class Counting:
    identity = "counting judge"

    async def complete(self, prompt, *, schema=None):
        note("sent", prompt)
        await asyncio.sleep(0.004)
        note("arrived", prompt)
        if prompt.startswith("cut"):
            raise JudgeReplyError("cut off", metrics=CallMetrics(100, 10, cost_usd=0.01))
        return JudgeReply("0.5 " + "because " * 100, CallMetrics(100, 10, cost_usd=0.01))

if KIND == "server":
    JUDGE = judge(URL, max_concurrency=MOST_CALLS, api_key="unused", prices=lambda *_: 0.01)
else:
    JUDGE = Counting()

async def asked(question):
    reply = await complete(JUDGE, question)
    note("used", question)
    return float(reply.text.split()[0])

@evaluator
async def once(output: str) -> float:
    return await asked(f"once-{output}")

@evaluator
async def twice(output: str) -> float:
    return (await asked(f"first-{output}") + await asked(f"second-{output}")) / 2

@evaluator
async def cut(output: str) -> float:
    return await asked(f"cut-{output}")

data = Dataset([Example.of(str(i), id=str(i)) for i in range(ITEMS)])
evaluators = [once, twice, cut]
plan = Experiment(data, lambda text: text, evaluators, parallelism=PARALLELISM, progress=False)

def one_run(folder, resume, retry=None):
    global NOTES
    os.chdir(folder)
    NOTES = os.open("notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    plan.run(resume=None if resume == "-" else resume, retry_errors=retry is not None)
    Path("finished").touch()

one_run("warm", "-")  # what a first run loads and compiles, the others have
print("ready", flush=True)
for line in sys.stdin:
    what, *arguments = line.split()
    if what == "wait":
        print(os.waitstatus_to_exitcode(os.waitpid(int(arguments[0]), 0)[1]), flush=True)
        continue
    child = os.fork()
    if child:
        print(child, flush=True)
        continue
    try:
        one_run(*arguments)
    except BaseException:
        import traceback
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)
"""


class Nursery:
    """The process that starts all others, so that none of them has to load anything first."""

    def __init__(self, path: Path, server: Server | None) -> None:
        self._errors = (path / "errors").open("wb")
        (path / "warm").mkdir()
        numbers = map(str, (ITEMS, PARALLELISM, MOST_CALLS))
        how = ["alone", "-"] if server is None else ["server", server.url]
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *numbers, *how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=path,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", (path / "errors").read_text()

    def start(self, folder: Path, resume: str) -> int:
        """Start a run in a folder; return the number of its process."""
        return self._told(f"start {folder} {resume}")

    def wait(self, process: int) -> int:
        """Wait for a process; return its exit code."""
        return self._told(f"wait {process}")

    def close(self) -> None:
        self._process.communicate(timeout=60)
        self._errors.close()

    def _told(self, line: str) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


class Folder:
    """A working folder in which the program is started, killed and started again."""

    def __init__(self, path: Path, nursery: Nursery, server: Server | None) -> None:
        path.mkdir()
        self.path = path
        self.nursery = nursery
        self.server = server

    @property
    def finished(self) -> bool:
        return (self.path / "finished").exists()

    @property
    def run_folder(self) -> Path | None:
        folders = list((self.path / ".dokimos" / "runs").glob("*/run.json"))
        return folders[0].parent if folders else None

    def start(self) -> int:
        return self.nursery.start(self.path, "-" if self.run_folder is None else "latest")

    def run_to_the_end(self, *, retry: bool = False) -> None:
        process = self.nursery.start(self.path, "latest retry") if retry else self.start()
        assert self.nursery.wait(process) == 0, (self.path.parent / "errors").read_text()

    def run_and_kill(self, calls: int, after: float) -> None:
        """Kill a run so many seconds after it has sent so many calls, or has ended without them."""
        enough = self.sent().total() + calls
        process = self.start()
        while self.sent().total() < enough and not self.finished:
            time.sleep(0.001)  # polls
        time.sleep(after)  # the moment of the kill
        os.kill(process, signal.SIGKILL)
        assert self.nursery.wait(process) in (0, -signal.SIGKILL), (self.path.parent / "errors").read_text()

    def sent(self) -> Counter[str]:
        """How often each call was made, as its judge counts."""
        return self.noted("sent") if self.server is None else Counter(self.server.asked)

    def noted(self, what: str) -> Counter[str]:
        notes = self.path / "notes"
        lines = notes.read_text().splitlines() if notes.exists() else []
        return Counter(line.split()[1] for line in lines if line.startswith(f"{what} "))

    def paid(self) -> int:
        """How many calls a budget counts when the run is taken up again."""
        assert self.run_folder is not None
        return sum(1 for _ in RunCallStore(self.run_folder / "calls.jsonl").costs())

    def stored(self) -> set[str]:
        """The calls whose replies are on disk: those on whole lines."""
        if self.run_folder is None or not (self.run_folder / "calls.jsonl").exists():
            return set()
        whole, _, _ = (self.run_folder / "calls.jsonl").read_bytes().rpartition(b"\n")
        return {json.loads(line)["prompt"] for line in whole.splitlines()}


class Server:
    """A model server that counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0
        self._mutex = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.answering(body["messages"][-1]["content"]):
                    time.sleep(0.004)  # a call takes a while
                message = {"role": "assistant", "content": "0.5 " + "because " * 100}
                ending = "length" if body["messages"][-1]["content"].startswith("cut") else "stop"
                choice = {"index": 0, "message": message, "finish_reason": ending}
                usage = {"prompt_tokens": 100, "completion_tokens": 10}
                reply = json.dumps({"choices": [choice], "usage": usage}).encode()
                with contextlib.suppress(OSError):  # the client was killed
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(reply)))
                    self.end_headers()
                    self.wfile.write(reply)

            def log_message(self, *arguments: object) -> None: ...

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._http.handle_error = lambda *_: None  # type: ignore[method-assign] # clients die on purpose
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1#model"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def answering(self, prompt: str) -> Iterator[None]:
        with self._mutex:
            self.asked.append(prompt)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        yield
        with self._mutex:
            self.at_once -= 1

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def nursery(tmp_path: Path, kind: str, server: Server) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path, server if kind == "server" else None)
    yield nursery
    nursery.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
@pytest.mark.parametrize("kind", ["alone", "server"])
def test_no_reply_that_had_arrived_is_asked_for_again(
    tmp_path: Path, kind: str, server: Server, nursery: Nursery
) -> None:
    """Runs are killed at random moments of their lives until they have come to their end."""
    draw = random.Random(7)
    counting = server if kind == "server" else None
    kills = number = in_the_middle = 0
    while kills < KILLS[kind]:
        number += 1
        server.asked.clear()
        folder = Folder(tmp_path / str(number), nursery, counting)
        rounds = 0
        earlier: Counter[str] = Counter()
        while not folder.finished and rounds < 8:
            known, before = folder.stored(), folder.sent()
            used, arrived = folder.noted("used"), folder.noted("arrived") - earlier
            earlier += arrived
            folder.run_and_kill(draw.randint(0, MOST_BEFORE_KILL), draw.uniform(0.0, JITTER))
            sent = folder.sent() - before
            assert not known & sent.keys(), "a call was made whose reply is on disk"
            assert not used.keys() & sent.keys(), "a call was made whose reply had been used"
            # A kill between a reply's arrival and its writing, microseconds later, is as good as one before.
            assert len(arrived.keys() & sent.keys()) <= 1, (
                "several replies that had arrived were lost by a kill"
            )
            rounds += 1
            in_the_middle += 0 < len(folder.stored()) < ITEMS * CALLS_PER_ITEM
        kills += rounds - folder.finished  # the last of them may have come to its end unharmed
        if not folder.finished:
            folder.run_to_the_end()

        assert folder.stored() == set(folder.sent())
        sent_again = folder.sent().total() - ITEMS * CALLS_PER_ITEM
        assert 0 <= sent_again <= rounds * MOST_CALLS
        assert folder.run_folder is not None
        result = load_run(folder.run_folder)
        assert (result.total_count, result.error_count) == (ITEMS, ITEMS)
        assert {s.name: s.errors for s in result.summary.evaluators} == {"Once": 0, "Twice": 0, "Cut": ITEMS}
        costs = {s.name: s.metrics.cost_usd for s in result.summary.evaluators}
        assert {name: round(cost or 0, 6) for name, cost in costs.items()} == {
            "Once": 0.16,
            "Twice": 0.32,
            "Cut": 0.16,
        }
        assert folder.paid() == ITEMS * CALLS_PER_ITEM
    before = folder.sent()
    folder.run_to_the_end(retry=True)
    assert folder.sent() - before == Counter(f"cut-{item}" for item in range(ITEMS))
    assert folder.paid() == ITEMS * (CALLS_PER_ITEM + 1)
    assert in_the_middle >= KILLS[kind] / 4, "most kills came before the first reply or after the last"
    assert server.most_at_once <= MOST_CALLS

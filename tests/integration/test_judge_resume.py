"""Processes that are killed while they judge: no reply that had arrived is asked for again."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dokimos.experiment.store import load_run

ITEMS = 40
PARALLELISM = 6
CALLS_PER_ITEM = 3  # one by the first evaluator, two, one after the other, by the second
MOST_CALLS = 2 * PARALLELISM
KILLS = 26
"""Of each kind."""

PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from dokimos import CallMetrics, Dataset, Example, Experiment, on_input
from dokimos.evaluators.function import evaluator
from dokimos.judges.calls import complete
from dokimos.judges.factory import judge
from dokimos.judges.protocol import JudgeReply
import pydantic  # before it is ready, so that the kills are spread over the run

ITEMS, PARALLELISM, MOST_CALLS = map(int, sys.argv[1:4])
KIND, URL, RESUME = sys.argv[4:]

NOTES = os.open("notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def note(what, question):
    os.write(NOTES, f"{what} {question}\\n".encode())

class Counting:
    identity = "counting judge"

    async def complete(self, prompt, *, schema=None):
        note("sent", prompt)
        await asyncio.sleep(0.004)
        note("arrived", prompt)
        return JudgeReply("0.5 " + "because " * 100, CallMetrics(100, 10, cost_usd=0.01))

if KIND == "server":
    import aiohttp
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

data = Dataset([Example.of(str(i), id=str(i)) for i in range(ITEMS)])
plan = Experiment(data, on_input(lambda text: text), [once, twice], parallelism=PARALLELISM, progress=False)
Path("ready").touch()
if RESUME != "-":
    plan.run(resume=RESUME)
else:
    plan.run()
Path("finished").touch()
"""


class Folder:
    """A working folder in which the program is started, killed and started again."""

    def __init__(self, path: Path, server: Server | None) -> None:
        path.mkdir()
        (path / "program.py").write_text(PROGRAM)
        self.path = path
        self.server = server

    @property
    def finished(self) -> bool:
        return (self.path / "finished").exists()

    @property
    def run_folder(self) -> Path | None:
        folders = list((self.path / ".dokimos" / "runs").glob("*/run.json"))
        return folders[0].parent if folders else None

    def start(self) -> subprocess.Popen[bytes]:
        (self.path / "ready").unlink(missing_ok=True)
        resume = "-" if self.run_folder is None else "latest"
        numbers = map(str, (ITEMS, PARALLELISM, MOST_CALLS))
        how = ["alone", "-"] if self.server is None else ["server", self.server.url]
        command = [sys.executable, "program.py", *numbers, *how, resume]
        return subprocess.Popen(command, cwd=self.path, stderr=subprocess.PIPE)

    def run_to_the_end(self) -> None:
        process = self.start()
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors.decode()

    def run_and_kill(self, after: float) -> None:
        process = self.start()
        while not (self.path / "ready").exists() and process.poll() is None:
            time.sleep(0.002)
        time.sleep(after)
        process.kill()
        process.communicate(timeout=10)

    def sent(self) -> Counter[str]:
        """How often each call was made, as its judge counts."""
        return self.noted("sent") if self.server is None else Counter(self.server.asked)

    def noted(self, what: str) -> Counter[str]:
        notes = self.path / "notes"
        lines = notes.read_text().splitlines() if notes.exists() else []
        return Counter(line.split()[1] for line in lines if line.startswith(f"{what} "))

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
                    time.sleep(0.004)
                message = {"role": "assistant", "content": "0.5 " + "because " * 100}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
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
        self._http.handle_error = lambda *_: None  # type: ignore[method-assign]
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["alone", "server"])
def test_no_reply_that_had_arrived_is_asked_for_again(tmp_path: Path, kind: str, server: Server) -> None:
    """Runs are killed at random moments of their lives until they have come to their end."""
    draw = random.Random(7)
    lifetime = 0.12 if kind == "alone" else 0.4
    kills = number = arrived_again = 0
    while kills < KILLS:
        number += 1
        server.asked.clear()
        folder = Folder(tmp_path / str(number), server if kind == "server" else None)
        rounds = 0
        while not folder.finished and rounds < 8:
            known, before = folder.stored(), folder.sent()
            used = folder.noted("used")
            folder.run_and_kill(draw.uniform(0.0, lifetime))
            sent = folder.sent() - before
            assert not known & sent.keys(), "a call was made whose reply is on disk"
            assert not used.keys() & sent.keys(), "a call was made whose reply had been used"
            rounds += 1
        kills += rounds
        if not folder.finished:
            folder.run_to_the_end()

        assert folder.stored() == set(folder.sent())
        sent_again = folder.sent().total() - ITEMS * CALLS_PER_ITEM
        assert 0 <= sent_again <= rounds * MOST_CALLS
        if kind == "alone":
            arrived_again += folder.noted("arrived").total() - ITEMS * CALLS_PER_ITEM
        assert folder.run_folder is not None
        result = load_run(folder.run_folder)
        assert (result.total_count, result.error_count) == (ITEMS, 0)
        costs = {s.name: s.metrics.cost_usd for s in result.summary.evaluators}
        assert {name: round(cost or 0, 6) for name, cost in costs.items()} == {"Once": 0.4, "Twice": 0.8}
    # A kill between a reply's arrival and its writing, some microseconds later, is as good as one before.
    assert arrived_again <= 2
    assert server.most_at_once <= MOST_CALLS

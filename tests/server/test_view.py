"""`dokimos view`: the runs of a folder, read into a database beside them while they go on."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tests.server.server_process import PATIENCE, Process, wait_until

from dokimos import Dataset, Example, Experiment
from dokimos._cli.main import run_command
from dokimos.evaluators import ExactMatch, FunctionEvaluator, TokenF1
from dokimos.experiment._stored_run import StoredRun
from dokimos.exporters import export
from dokimos.server._view.folder_run import FolderRun
from dokimos.server._view.read_marks import VERSION, ReadMark, ReadMarks
from dokimos.server._view.result_file import ResultFile
from dokimos.server._view.run_feed import FeedListener, RunFeed
from dokimos.server._view.viewing import project_name, view_folder

FOREIGN = {
    "DB_HOST": "db.invalid", "DB_PASSWORD": "x", "DOKIMOS_DATABASE_URL": "postgresql://db.invalid/x",
    "DOKIMOS_API_KEY": "secret", "DOKIMOS_REQUIRE_AUTH_FOR_READS": "true", "SERVER_PORT": "1",
    "http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "all_proxy": "http://127.0.0.1:9",
}  # fmt: skip
"""Variables that are meant for a shared server, or lead away from this machine."""


def answer(text):
    return {"output": text.upper(), "retrievedContext": ["a chunk"]}


def make_experiment(task=answer, *, name="letters", size=3, evaluators=None):
    examples = [Example.of(f"a{n}", f"A{n}", id=f"id {n}", topic=n % 2) for n in range(size)]
    scored = [ExactMatch(), TokenF1(threshold=0.5)] if evaluators is None else evaluators
    return Experiment(Dataset(examples, name="alphabet"), task, scored, name=name)


def make_run(root, **settings):
    """Return the folder of a run that has ended."""
    result = make_experiment(**settings).run(run_dir=root, quiet=True)
    return Path(root) / result.run_id


class LiveRun:
    """A run in a thread of this process, whose task returns when it is told to."""

    def __init__(self, root, **settings):
        before = set(root.iterdir())
        self._turns = threading.Semaphore(0)

        def wait_for_turn(text):
            self._turns.acquire()
            return answer(text)

        experiment = replace(make_experiment(wait_for_turn, **settings), parallelism=1)
        self._thread = threading.Thread(target=lambda: experiment.run(run_dir=root, quiet=True), daemon=True)
        self._thread.start()
        wait_until(
            lambda: any((path / "journal.jsonl").exists() for path in self._new(root, before)), "a run"
        )
        [self.folder] = self._new(root, before)

    @staticmethod
    def _new(root, before):
        return [path for path in root.iterdir() if path not in before]

    def let_go_on(self, items):
        self._turns.release(items)

    def join(self):
        self._thread.join(PATIENCE)


class Viewer(Process):
    """`dokimos view` in a process of its own."""

    def __init__(self, root, *arguments):
        environment = {name: value for name, value in os.environ.items() if name != "DOKIMOS_RUN_DIR"}
        self.lines = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dokimos", "view", "--run-dir", str(root), "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment | FOREIGN,
        )
        first = self.process.stdout.readline()
        assert " are shown at http" in first, self.process.communicate()
        self.address = first.split(" at ")[1].split()[0]

    def read_until(self, word):
        while word not in (line := self.process.stdout.readline()):
            assert line, self.process.communicate()
            self.lines.append(line.strip())

    def get(self, path):
        status, body = self.call("GET", path)
        assert status == 200, body
        return body

    def runs(self):
        """All runs by the ids that they have in the run folder."""
        found = {}
        for project in self.get("/projects"):
            for experiment in self.get(f"/projects/{project['name']}/experiments"):
                found |= {run["name"]: run for run in self.get(f"/experiments/{experiment['id']}/runs")}
        return found

    def page_of(self, folder):
        run = self.runs().get(folder.name)
        return None if run is None else self.get(f"/runs/{run['id']}?size=50")

    def wait_for(self, folder, status, items):
        def is_reached():
            page = self.page_of(folder)
            return page is not None and (page["status"], page["items"]["totalElements"]) == (status, items)

        wait_until(is_reached, f"{folder.name} {status} with {items} items")
        return self.page_of(folder)


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "work" / ".dokimos" / "runs"
    path.mkdir(parents=True)
    return path


@pytest.fixture(autouse=True)
def direct(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


def test_runs_are_shown_while_they_go_on_and_survive_a_kill(root, tmp_path):
    ended, deleted = make_run(root), make_run(root, name="other")
    report = export(
        make_experiment(name="elsewhere").run(journal=False, quiet=True), tmp_path / "report.json"
    )
    viewer = Viewer(root, str(report))
    try:
        viewer.read_until("new ones appear by themselves")
        page = viewer.wait_for(ended, "SUCCESS", 3)
        assert [project["name"] for project in viewer.get("/projects")] == ["work"]
        assert len(viewer.runs()) == 3

        live = LiveRun(root)
        viewer.wait_for(live.folder, "RUNNING", 0)
        live.let_go_on(1)
        viewer.wait_for(live.folder, "RUNNING", 1)

        viewer.kill()
        live.let_go_on(2)
        live.join()
        shutil.rmtree(deleted)
        damaged = shutil.copytree(ended, root / "20200101-000000-damaged")
        (damaged / "run.json").write_text("{")
        viewer = Viewer(root)
        viewer.read_until("new ones appear by themselves")

        check_fields(viewer.wait_for(live.folder, "SUCCESS", 3))
        assert viewer.page_of(ended) == page  # not read again: every id is the same
        assert set(viewer.runs()) == {ended.name, live.folder.name}

        shutil.rmtree(ended)
        wait_until(lambda: set(viewer.runs()) == {live.folder.name}, "the deleted run is gone")
        other = subprocess.run(
            [sys.executable, "-m", "dokimos", "view", live.folder.name, "--run-dir", str(root)],
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert f"These runs are shown at {viewer.address} already (process {viewer.pid})." in other.stdout
        assert f"{viewer.address}/runs/{viewer.runs()[live.folder.name]['id']}" in other.stdout

        viewer.process.send_signal(signal.SIGINT)
        out, errors = viewer.process.communicate(timeout=PATIENCE)
        assert (viewer.process.returncode, out.splitlines()[-1]) == (0, "Stopped.")
        assert "20200101-000000-damaged: " in errors
    finally:
        viewer.kill()


def check_fields(page):
    """Hold a run that was read while it went on against what it was."""
    assert (page["plannedItems"], page["totalItems"]) == (3, 3)
    origin = page["provenance"]
    assert (origin["datasetName"], origin["datasetSize"]) == ("alphabet", 3)
    assert origin["endedAt"] > origin["startedAt"]  # known only at the end
    evaluator = page["evaluators"][1]
    assert (evaluator["direction"], evaluator["rangeHigh"], evaluator["threshold"]) == (
        "HIGHER_IS_BETTER",
        1,
        0.5,
    )
    assert evaluator["fingerprint"]
    item = page["items"]["content"][1]
    assert item["actualOutput"] == {"output": "A1", "retrievedContext": ["a chunk"]}
    assert item["metadata"] == {"topic": 1, "dokimos": {"id": "id 1"}}
    assert item["latencyMs"] is not None
    assert item["evalResults"][0]["reason"] == "The output is exactly the expected text."


class Database:
    """Stands in for the database and the API of a server, and remembers what it was sent."""

    def __init__(self):
        self.items = {}
        self.sent = []
        self.statuses = []
        self.refused = ()
        self.keep = lambda item: None

    async def request(self, method, path, *, json=None, content=None, **_):
        from dokimos._http.api_client import ApiReply
        from dokimos.errors import ServerRefusedError

        reply = {}
        if path.endswith("/items"):
            items = self._parse(content)
            for place, item in enumerate(items):
                if item["ordinal"] in self.refused:
                    message = f"items[{place}].inputs: too deep"
                    raise ServerRefusedError(message, status=400, details={"message": message})
            for item in items:
                self.keep(item)
            self.sent += [(item["repetition"], item["ordinal"]) for item in items]
            self.items |= {(item["repetition"], item["ordinal"]): item for item in items}
        elif method == "PATCH":
            self.statuses.append(json["status"])
        elif method == "POST":
            reply = {"runId": "0"}
        elif method == "DELETE":
            self.items.clear()
        return ApiReply(200, {}, globals()["json"].dumps(reply).encode(), path)

    @staticmethod
    def _parse(content):
        return json.loads(content)["items"]

    async def write(self, change):
        """Where a run comes from is stored with SQL, which is tested with a whole server."""


class Follower:
    """A feed whose rounds a test asks for."""

    def __init__(self, root, folder, *named):
        self.problems = []
        self.database = Database()
        folder.mkdir(exist_ok=True)
        ignore = lambda *_: None  # noqa: E731 - as short as what it replaces
        listener = FeedListener(
            problem=self.problems.append, progress=ignore, up_to_date=ignore, named=ignore
        )
        self.feed = RunFeed(
            root=root, named=named, project="p", marks=ReadMarks(folder), listener=listener,
            api=self.database, database=self.database,
        )  # fmt: skip
        self.feed._sources = {source.key: source for source in named}

    def look(self):
        async def look():
            while await self.feed._look():
                pass

        asyncio.run(look())
        return self.database


def test_an_item_is_sent_once_all_of_its_evaluators_have_scored_it(root, tmp_path):
    scored, release = threading.Event(), threading.Event()

    def slow(case):
        scored.set()
        return release.wait(PATIENCE)

    live = LiveRun(root, size=2, evaluators=[ExactMatch(), FunctionEvaluator(function=slow, name="slow")])
    follower = Follower(root, tmp_path / "view")
    live.let_go_on(1)
    assert scored.wait(PATIENCE)
    # The output is on disk, and one of its two scores may be.
    assert follower.look().items == {}

    release.set()
    wait_until(lambda: follower.look().items, "the item")
    assert len(follower.database.items[0, 0]["evalResults"]) == 2
    assert follower.database.statuses == ["RUNNING"]
    live.let_go_on(1)
    live.join()

    assert set(follower.look().items) == {(0, 0), (0, 1)}
    assert follower.database.sent == [(0, 0), (0, 1)]  # each of them once
    assert follower.database.statuses == ["RUNNING", "SUCCESS"]


def test_items_with_evaluators_of_their_own_are_sent_when_nothing_new_comes(root, tmp_path):
    live = LiveRun(root, evaluators=lambda example: [ExactMatch()])
    follower = Follower(root, tmp_path / "view")
    live.let_go_on(1)

    wait_until(lambda: follower.look().items, "the item")
    for _ in range(3):
        follower.look()
    assert follower.database.sent == [(0, 0)]
    live.let_go_on(2)
    live.join()
    assert set(follower.look().items) == {(0, 0), (0, 1), (0, 2)}


def test_a_killed_run_is_cancelled_and_goes_on_when_it_is_resumed(root, tmp_path):
    folder = make_run(root)
    journal = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "journal.jsonl").write_bytes(b"".join(journal[:2]) + journal[2][:10])
    follower = Follower(root, tmp_path / "view")

    assert (set(follower.look().items), follower.database.statuses) == ({(0, 0)}, ["RUNNING", "CANCELLED"])
    make_experiment().run(run_dir=root, resume=folder.name, quiet=True)

    assert set(follower.look().items) == {(0, 0), (0, 1), (0, 2)}
    assert follower.database.sent == [(0, 0), (0, 1), (0, 2)]
    assert follower.database.statuses == ["RUNNING", "CANCELLED", "RUNNING", "SUCCESS"]


def test_reading_that_was_cut_short_continues_behind_the_last_item(root, tmp_path, monkeypatch):
    monkeypatch.setattr("dokimos.server._view.folder_run.MOST_ITEMS", 2)
    folder = make_run(root, size=5)
    source, mark = FolderRun(folder), ReadMark()
    source.begin(mark)
    mark.last = source.take().last
    source.close()

    source = FolderRun(folder)
    source.begin(mark)
    sent = []
    while (batch := source.take()) is not None:
        sent += [json.loads(item)["ordinal"] for item in batch.items]
        mark.last = batch.last
    assert source.finish(mark).status == "SUCCESS"
    source.close()

    assert sent == [2, 3, 4]
    assert mark.base == (folder / "journal.jsonl").stat().st_size


def test_a_run_that_was_read_is_not_read_again_by_another_process(root, tmp_path):
    make_run(root)
    first = Follower(root, tmp_path / "view")
    first.look()
    first.feed.close()

    assert Follower(root, tmp_path / "view").look().sent == []


def test_what_cannot_be_stored_costs_only_itself(root, tmp_path):
    make_run(root, size=5)
    odd = make_run(root, name="odd")
    journal = odd / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"t":"item"', b'"t":"what"', 1))
    follower = Follower(root, tmp_path / "view")
    follower.database.refused = (3,)

    assert {ordinal for _, ordinal in follower.look().items} == {0, 1, 2, 4}
    assert "an item is missing: items[" in follower.problems[0]


def test_an_error_is_shown_with_its_traceback(root, tmp_path):
    def fail(text):
        raise LookupError("no answer")

    def judge(actual_output) -> bool:
        raise TimeoutError("no judge")

    make_run(root, task=fail, size=1)
    make_run(root, name="judged", size=1, evaluators=[FunctionEvaluator(function=judge, name="judge")])
    follower = Follower(root, tmp_path / "view")
    sent = []
    follower.database.keep = sent.append
    follower.look()

    own = [item["metadata"]["dokimos"] for item in sent]
    [task] = [each["errorDetail"] for each in own if "errorDetail" in each]
    [evaluator] = [each["errorDetails"]["judge"] for each in own if "errorDetails" in each]
    assert (task["type"], task["frames"][-1]["function"].rpartition(".")[2]) == ("LookupError", "fail")
    assert (evaluator["type"], "no judge" in evaluator["traceback"]) == ("TimeoutError", True)


def test_a_forced_resume_has_the_run_read_anew(root, tmp_path):
    folder = make_run(root, size=5)
    follower = Follower(root, tmp_path / "view")
    assert len(follower.look().items) == 5

    make_experiment(size=2).run(run_dir=root, resume=folder.name, force=True, quiet=True)

    assert set(follower.look().items) == {(0, 0), (0, 1)}


def test_a_result_in_a_file_is_shown_as_long_as_it_is_named(tmp_path, root):
    report = export(make_experiment().run(journal=False, quiet=True), tmp_path / "report.json")
    follower = Follower(root, tmp_path / "view", ResultFile(Path(report)))
    assert len(follower.look().items) == 3
    follower.feed.close()

    unnamed = Follower(root, tmp_path / "view")
    unnamed.database.items = {(0, 0): {}}
    assert unnamed.look().items == {}


def test_a_journal_that_grows_is_read_as_one_that_is_read_at_once(root):
    folder = make_run(root, size=4)
    lines = (folder / "journal.jsonl").read_bytes()
    (folder / "journal.jsonl").write_bytes(b"")
    growing = StoredRun(folder)
    for cut in (100, 700, len(lines)):
        (folder / "journal.jsonl").write_bytes(lines[:cut])
        growing.read_on()
    whole = StoredRun(folder)

    assert list(growing.positions) == list(whole.positions)
    assert [growing.item(each) for each in growing.positions] == [
        whole.item(each) for each in whole.positions
    ]
    assert (growing.outcome, growing.intact_size) == (whole.outcome, len(lines))
    growing.close()
    whole.close()


def test_a_database_of_another_version_is_made_anew(root):
    from dokimos.server._view.viewing import _discard_outdated

    folder = view_folder(root)
    folder.mkdir()

    def has_files(version):
        for name in ("server.db", "traces.db"):
            (folder / name).unlink(missing_ok=True)
            subprocess.run([sys.executable, "-c", MAKE_DATABASE, str(folder / name)], check=True)
        (folder / "read.json").write_text(json.dumps({"version": version, "marks": {}}))
        _discard_outdated(folder)
        return (folder / "server.db").exists()

    assert has_files(VERSION)
    assert not has_files([*VERSION[:-1], "0000"])
    (folder / "server.db").write_bytes(b"not a database" * 100)
    _discard_outdated(folder)
    assert list(folder.glob("*.db")) == []


MAKE_DATABASE = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('CREATE TABLE t (x)')"


def test_the_project_is_called_as_the_folder_that_the_runs_were_made_in(root, tmp_path):
    assert project_name(root) == "work"
    assert view_folder(root) == root.parent / "view"
    (tmp_path / "results").mkdir()
    assert project_name(tmp_path / "results") == "results"


def test_without_the_extra_a_static_page_is_written_and_the_extra_is_named(root, monkeypatch, capsys):
    make_run(root)
    monkeypatch.setattr("dokimos._cli.view._PACKAGES", ("a_package_that_is_not_installed",))
    monkeypatch.delenv("CI", raising=False)

    for command in (["view"], ["test", "view"]):
        assert run_command([*command, "--run-dir", str(root)]) == 0
        out = capsys.readouterr().out
        assert f"wrote {root.parent / 'dashboard.html'}" in out
        assert 'pip install "dokimos[server]"' in out
    assert '"name":"letters"' in (root.parent / "dashboard.html").read_text()


def test_a_page_is_written_where_it_is_asked_for_and_in_ci(root, tmp_path, monkeypatch, capsys):
    first, _ = make_run(root), make_run(root, name="other")
    page = tmp_path / "runs.html"

    assert run_command(["view", first.name, "--run-dir", str(root), "-o", str(page)]) == 0
    assert '"name":"letters"' in page.read_text()
    assert '"name":"other"' not in page.read_text()
    monkeypatch.setenv("CI", "true")
    assert run_command(["test", "view", "--run-dir", str(root)]) == 0
    assert "pip install" not in capsys.readouterr().out

    assert run_command(["view", "--static", str(page), "--run-dir", str(root)]) == 2
    assert "is not a run folder" in capsys.readouterr().err

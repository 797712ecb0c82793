"""Clients of a server that is killed again and again: what they do, and what must be there afterwards."""

import random
import threading
from contextlib import contextmanager, suppress

from tests.server.server_process import PATIENCE

PROMOTED = 1_200
"""Items of the run that is promoted: more than one transaction writes."""


class Progress:
    """How many requests all clients have had answered."""

    def __init__(self):
        self._changed = threading.Condition()
        self._steps = 0

    def add(self):
        with self._changed:
            self._steps += 1
            self._changed.notify_all()

    def wait_for(self, steps):
        """Wait until so many more have been answered."""
        with self._changed:
            target = self._steps + steps
            assert self._changed.wait_for(lambda: self._steps >= target, PATIENCE), "no client goes on"


@contextmanager
def sending(clients, server):
    """Clients at work until the server is gone, which the block must see to."""
    threads = [threading.Thread(target=client.work, args=(server,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


class Client:
    """Repeats each request until it is answered, and goes on only then."""

    def __init__(self, progress):
        self._progress = progress
        self.position = 0

    def work(self, server):
        """Send until the server is gone."""
        with suppress(OSError, ValueError):
            while True:
                self.go_on(server)

    def go_on(self, server):
        self.step(server)
        self.position += 1
        self._progress.add()


class RunClient(Client):
    """Starts runs, sends items and ends them, as documented clients do."""

    def __init__(self, number, progress):
        super().__init__(progress)
        self.name = f"client-{number}"
        self.run = None
        self.acknowledged = {}
        """The questions of each run that the server has acknowledged."""
        self.ended = set()

    def finish(self, server):
        """End the run that is under way."""
        while self.position % 12:
            self.go_on(server)
        assert self.ended == set(self.acknowledged)

    def step(self, server):
        stage = self.position % 12
        number = self.position // 12
        if stage == 0:
            status, answer = server.call(
                "POST", f"/projects/{self.name}/runs", {"experimentName": "qa"}, key=f"run-{number}"
            )
            assert status == 201, answer
            self.run = answer["runId"]
            self.acknowledged.setdefault(self.run, [])
        elif stage < 11:
            questions = [f"{number}-{stage}-{each}" for each in range(3)]
            status, answer = server.call(
                "POST",
                f"/runs/{self.run}/items",
                {"items": [item(question) for question in questions]},
                key=f"batch-{number}-{stage}",
            )
            assert status == 201, answer
            self.acknowledged[self.run] += questions
        else:
            status, answer = server.call("PATCH", f"/runs/{self.run}", {"status": "SUCCESS"})
            assert status == 200, answer
            self.ended.add(self.run)

    def check(self, server):
        """All that was acknowledged is there once; of the request under way all or nothing."""
        for run, questions in self.acknowledged.items():
            _, answer = server.call("GET", f"/runs/{run}?size=2000")
            stored = [item["input"]["q"] for item in answer["items"]["content"]]
            assert stored[: len(questions)] == questions
            assert len(set(stored)) == len(stored)
            assert len(stored) - len(questions) in ((0,) if run in self.ended else (0, 3))
            assert answer["totalItems"] == answer["passedItems"] == len(stored)
            if run in self.ended:
                assert answer["status"] == "SUCCESS"
        _, experiments = server.call("GET", f"/projects/{self.name}/experiments")
        if isinstance(experiments, list) and experiments:
            runs = server.call("GET", f"/experiments/{experiments[0]['id']}/runs")[1]
            assert len(runs) - len(self.acknowledged) in (0, 1)


class PromotingClient(Client):
    """Corrects items of a run and promotes them: all of them with `replace`, or some with `append`."""

    def __init__(self, progress):
        super().__init__(progress)
        self._random = random.Random(3)
        self.ids = []
        self.corrections = {}
        """What the items should have been, by their numbers."""
        self.versions = {}
        """By its number, the expected answers of a version that was acknowledged, by the items' numbers."""
        self.latest = {}
        self.request = None
        self.corrected = None
        """The number of the item whose correction was not answered yet."""
        self.under_way = None
        """The request that was not answered yet, and what the latest version is after it."""

    def finish(self, server):
        """Promote once more, after what was under way."""
        for _ in range(3):
            self.go_on(server)
        assert self.versions

    def step(self, server):
        if not self.ids:
            self._set_up(server)
        elif self.position % 2:
            self._correct(server)
        else:
            self._promote(server)

    def _set_up(self, server):
        """Send the run, each request with its key."""
        assert server.call("POST", "/datasets", {"name": "promoted"})[0] in (201, 409)
        body = {"experimentName": "qa"}
        run = server.call("POST", "/projects/promoting/runs", body, key="run")[1]["runId"]
        items = [item(number) for number in range(PROMOTED)]
        assert server.call("POST", f"/runs/{run}/items", {"items": items}, key="items")[0] == 201
        content = server.call("GET", f"/runs/{run}?size=2000")[1]["items"]["content"]
        self.run, self.ids = run, [each["id"] for each in content]
        assert len(self.ids) == PROMOTED

    def _correct(self, server):
        if self.corrected is None:  # else it may be stored already: the same item is corrected again
            self.corrected = self._random.randrange(PROMOTED)
        body = {"verdict": "INCORRECT", "overriddenExpectedOutput": {"a": f"correction {self.position}"}}
        path = f"/runs/{self.run}/items/{self.ids[self.corrected]}/annotation"
        assert server.call("PUT", path, body)[0] == 200
        self.corrections[self.corrected] = body["overriddenExpectedOutput"]
        self.corrected = None

    def _promote(self, server):
        if self.under_way is None:
            if self._random.random() < 0.4:
                mode, numbers = "replace", list(range(PROMOTED - self._random.randrange(100)))
                after = {}
            else:
                mode, numbers = "append", self._random.sample(range(PROMOTED), 50)
                after = dict(self.latest)
            # An item that is there already keeps its place, as it does in a dict.
            after |= {number: self.corrections.get(number, {"a": ""}) for number in numbers}
            items = [{"itemResultId": self.ids[number]} for number in numbers]
            self.under_way = {"datasetName": "promoted", "mode": mode, "items": items}, after
        body, after = self.under_way
        status, answer = server.call("POST", "/datasets/promote", body)
        assert status == 201, answer
        self.versions[answer["version"]] = self.latest = after
        self.under_way = None

    def check(self, server):
        """Versions that were acknowledged are as they were; of the one under way all is there, or nothing."""
        status, dataset = server.call("GET", "/datasets/promoted")
        if status == 404:
            assert not self.versions
            return
        numbers = [version["version"] for version in dataset["versions"]]
        assert numbers == list(range(len(numbers), 0, -1))
        newest = max(self.versions, default=0)
        # Above it is what was complete when its answer was lost, once for each time that it was asked for.
        assert len(numbers) == newest if self.under_way is None else len(numbers) >= newest
        cases = {}
        for number in reversed(numbers):
            known = min((each for each in self.versions if each >= number), default=None)
            expected = self.under_way[1] if known is None else self.versions[known]
            cases = self._check_version(server, number, expected, cases)

    def _check_version(self, server, number, expected, cases_before):
        content = server.call("GET", f"/datasets/promoted/versions/{number}/items?size=2000")[1]["content"]
        assert [each["inputs"]["q"] for each in content] == list(expected)
        assert [each["expectedOutputs"] for each in content] == list(expected.values())
        assert [each["source"]["itemResultId"] for each in content] == [self.ids[q] for q in expected]
        cases = {each["inputs"]["q"]: each["lineageId"] for each in content}
        assert all(cases_before.get(question, case) == case for question, case in cases.items())
        return cases


def item(question):
    """An item that passed."""
    return {
        "inputs": {"q": question},
        "actualOutputs": {},
        "expectedOutputs": {"a": ""},
        "evalResults": [{"name": "e", "score": 1.0, "success": True}],
    }

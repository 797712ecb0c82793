"""Clients of three servers of which one is killed: nothing is lost or doubled, and no run is stuck."""

import os
import random
import threading
from contextlib import ExitStack
from http.client import HTTPException

import pytest
from tests.server.killed_clients import Progress, RunClient
from tests.server.server_process import Process, execute, wait_until

KILLS = 20 if "DOKIMOS_LONG_TESTS" in os.environ else 2
CLIENTS = 4


class RoamingClient(RunClient):
    """Sends each request to another server, and what was not answered to the next one; gates each run."""

    def __init__(self, number, progress, servers):
        super().__init__(number, progress)
        self._servers = servers
        self._turn = number
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.gated = {}
        """By run, the answer of the gate."""
        self.error = None

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        self._thread.join()

    def _work(self):
        try:
            while not self._stop.is_set():
                self.go_on_somewhere()
        except BaseException as error:
            self.error = error
            raise

    def go_on_somewhere(self):
        """Take the next step, at the next server that answers."""
        while True:
            self._turn += 1
            try:
                self.go_on(self._servers[self._turn % len(self._servers)])
                return
            except (OSError, HTTPException):  # killed: with or without having done it
                continue

    def finish(self):
        """End the run that is under way."""
        while self.position % 12:
            self.go_on_somewhere()
        assert self.ended == set(self.acknowledged) == set(self.gated)

    def step(self, server):
        super().step(server)
        if self.position % 12 == 11:
            self.gated[self.run] = self.gate(server, self.run)

    def gate(self, server, run):
        experiment = server.call("GET", f"/runs/{run}?size=1")[1]["experimentId"]
        status, answer = server.call("POST", f"/experiments/{experiment}/gate", {"candidateRunId": run})
        assert status == 200, answer
        return answer


@pytest.fixture
def servers(postgres_database):
    """Three servers on one database, which a test may kill and replace."""
    servers = [Process({"database_url": postgres_database}) for _ in range(3)]
    yield servers
    for server in servers:
        server.kill()


def test_three_servers_under_load_of_which_one_is_killed(servers, postgres_database):
    settings = {"database_url": postgres_database}
    pick = random.Random(5)
    progress = Progress()
    clients = [RoamingClient(number, progress, servers) for number in range(CLIENTS)]
    with ExitStack() as at_work:
        for client in clients:
            at_work.enter_context(client)
        for _ in range(KILLS):
            progress.wait_for(pick.randrange(20, 80))
            killed = pick.randrange(3)
            servers[killed].kill()
            progress.wait_for(40)  # the others go on
            servers[killed] = Process(settings)
        progress.wait_for(CLIENTS * 24)
        servers[0].kill()
        progress.wait_for(40)

    for client in clients:
        assert client.error is None
        client.finish()
        check(client, servers[1], settings)


def check(client, server, settings):
    """Each run is there once, compared once with the run before, and has its verdict."""
    client.check(server)
    runs = list(client.gated)
    for before, now in zip([None, *runs[:-1]], runs, strict=True):
        answer = client.gated[now]
        assert answer["status"] == ("NO_BASELINE" if before is None else "PASS"), answer
        assert answer["baselineRunId"] == before
        assert client.gate(server, now) == answer  # where the verdict was lost, it is computed now
    ids = ", ".join(f"'{run}'" for run in runs)
    pairs = f"SELECT COUNT(*) FROM comparisons WHERE state <> '' AND candidate_run_id IN ({ids})"
    assert execute(settings, pairs) == [(len(runs) - 1,)]
    missing = f"SELECT COUNT(*) FROM runs WHERE verdict IS NULL AND id IN ({ids})"
    wait_until(lambda: execute(settings, missing) == [(0,)], "the verdicts")

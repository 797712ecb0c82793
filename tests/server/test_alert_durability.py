"""Servers that are killed at any moment lose no alert: each is sent at least once."""

import os
import random
from contextlib import suppress

from tests.server.alert_receiver import BAD, GOOD, open_receiver
from tests.server.killed_clients import Client, Progress, sending
from tests.server.server_process import execute, wait_until

KILLS = 60 if "DOKIMOS_LONG_TESTS" in os.environ else 3
STEPS = 12
# As if the minutes had passed for which a lease lasts, a failed alert waits, and a verdict may take.
TIME_PASSES = (
    "UPDATE alert_deliveries SET leased_until = 0, next_attempt_at = 0 WHERE status = 'PENDING'",
    "UPDATE runs SET completed_at = completed_at - 120000000 WHERE verdict IS NULL AND completed_at > 0",
)


class FailingClient(Client):
    """Runs experiments that get worse, as documented clients do: each second run fails the gate."""

    def __init__(self, number, progress):
        super().__init__(progress)
        self.project = f"client-{number}"
        self.failed = set()
        self.run = None

    def work(self, server):
        """Do a few steps, of which every six end a run that fails the gate."""
        with suppress(OSError, ValueError):
            for _ in range(STEPS):
                self.go_on(server)

    def step(self, server):
        turn, stage = divmod(self.position, 3)
        is_bad = turn % 2
        if stage == 0:
            body = {"experimentName": f"qa-{turn // 2}"}
            status, answer = server.call("POST", f"/projects/{self.project}/runs", body, key=f"run-{turn}")
            self.run = answer["runId"]
        elif stage == 1:
            items = {"items": BAD if is_bad else GOOD}
            status, answer = server.call("POST", f"/runs/{self.run}/items", items, key=f"items-{turn}")
        else:
            status, answer = server.call("PATCH", f"/runs/{self.run}", {"status": "SUCCESS"})
            if is_bad:
                self.failed.add(self.run)
        assert status < 300, answer


def test_a_server_that_is_killed_sends_each_alert_at_least_once(process, database_settings):
    """Runs end, verdicts are stored, alerts are sent, some of them again: it is killed in between."""
    pick = random.Random(11)
    progress = Progress()
    clients = [FailingClient(number, progress) for number in range(2)]
    with open_receiver() as receiver:
        server = process()
        register(server, clients, receiver)
        for _ in range(KILLS):
            # Of every three calls one fails, so that there are always some that wait.
            receiver.answers = [pick.choice([(200, {}), (200, {}), (500, {})]) for _ in range(500)]
            with sending(clients, server):
                progress.wait_for(pick.randrange(1, 2 * STEPS))
                if pick.random() < 0.7:  # in the middle of what is sent, rather than of what is stored
                    receiver.wait_for(len(receiver.requests) + pick.randrange(2))
                server.kill()
            for statement in TIME_PASSES:
                execute(database_settings, statement)
            server = process()
        receiver.answers = [(200, {})]
        finish(server, clients)
        failed = set().union(*(client.failed for client in clients))
        arrived = wait_for_all(server, database_settings, receiver, failed)

    assert arrived == failed
    assert len(failed) >= KILLS // 2
    rows = execute(database_settings, "SELECT status, COUNT(*) FROM alert_deliveries GROUP BY status")
    assert dict(rows) == {"DELIVERED": len(failed)}


def register(server, clients, receiver):
    """Have each client's project call the receiver."""
    for client in clients:
        client.go_on(server)
    for project in server.call("GET", "/projects")[1]:
        path = f"/projects/{project['id']}/alert-webhooks"
        assert server.call("POST", path, {"url": receiver.url, "secret": "s"})[0] == 201


def finish(server, clients):
    for client in clients:
        while client.position % 6:
            client.go_on(server)


def wait_for_all(server, settings, receiver, failed):
    """Wait until the outbox is empty and all verdicts are there; return the runs that were told of."""

    def is_done():
        (verdicts,) = execute(settings, "SELECT COUNT(*) FROM runs WHERE verdict IS NULL")[0]
        (waiting,) = execute(settings, "SELECT COUNT(*) FROM alert_deliveries WHERE status = 'PENDING'")[0]
        if waiting:
            execute(settings, TIME_PASSES[0])
        return not verdicts and not waiting

    wait_until(is_done, "all verdicts and alerts")
    return {request.json()["runId"] for request in receiver.requests}

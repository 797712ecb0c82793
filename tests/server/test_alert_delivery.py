"""Receivers that fail, and what becomes of alerts then: tried again, given up, sent once more."""

import asyncio
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from sqlalchemy import select, update
from tests.server.alert_receiver import (
    begin,
    deliveries,
    fail,
    hooks,
    open_receiver,
    own_project,
    project_of,
    raw_receiver,
    register,
    wait_for_delivery,
    write,
)
from tests.server.gate_runs import start
from tests.server.server_process import PATIENCE, wait_until

from dokimos._http import webhook as http_webhook
from dokimos._http.address_policy import AddressPolicy
from dokimos._http.webhook import WebhookReply
from dokimos.server._db import clock
from dokimos.server._db.alert_tables import ALERT_DELIVERIES, ALERT_WEBHOOKS
from dokimos.server._services.alerts import alert_outbox, alert_schedule
from dokimos.server._services.alerts.alert_claims import (
    MAX_FAILING_DAYS,
    MAX_LOST,
    Attempt,
    claim_alerts,
    store_attempt,
)
from dokimos.server._services.alerts.alert_outbox import queue_delivery
from dokimos.server._services.alerts.alert_schedule import WAITS, next_wait

DAY = 86_400_000_000
ADMIN = {"Authorization": "Bearer k"}


@pytest.fixture
def api(shared_server):
    with own_project(shared_server) as api:
        yield api


@pytest.fixture
def receiver():
    with open_receiver() as receiver:
        yield receiver


@pytest.fixture
def project(api):
    return begin(api)


def read(api, query):
    return api.portal.call(api.app.state.database.read, lambda connection: connection.execute(query).all())


def read_counters(api):
    """What the metrics say of alerts."""
    lines = [line for line in api.get("/metrics").text.splitlines() if line.startswith("dokimos_alert")]
    found = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
    return {'dokimos_alert_attempts_total{outcome="delivered"}': 0, **found}


def let_time_pass(api, microseconds=2 * DAY):
    """Make everything that waits due, as if so much time had passed."""
    columns = ("next_attempt_at", "scheduled_at")
    values = {name: ALERT_DELIVERIES.c[name] - microseconds for name in columns}
    write(api, update(ALERT_DELIVERIES).values(values))
    api.portal.call(api.app.state.alerts.wake)


def test_a_failed_attempt_is_repeated_under_the_same_id(api, project, receiver, caplog):
    hook = register(api, project, receiver.url, secret="s3cret-value")
    receiver.answers = [(503, {}), (200, {})]
    fail(api)
    waiting = wait_for_delivery(api, project, hook, status="PENDING", attempts=1)
    assert (waiting["lastStatusCode"], waiting["lastError"]) == (503, "The receiver answered 503.")
    assert waiting["nextAttemptAt"] > waiting["createdAt"]
    assert waiting["finishedAt"] is None
    assert api.get(hooks(project, hook)).json()["failingSince"] is not None

    let_time_pass(api)
    done = wait_for_delivery(api, project, hook, status="DELIVERED", attempts=2)

    first, second = receiver.wait_for(2)
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == done["id"]
    assert first.body == second.body
    assert (done["lastError"], done["nextAttemptAt"]) == (None, None)
    assert api.get(hooks(project, hook)).json()["failingSince"] is None
    failures = [record.getMessage() for record in caplog.records if "503" in record.getMessage()]
    assert len(failures) == 1
    assert "at 127.0.0.1 has not arrived: The receiver answered 503. The next attempt is in " in failures[0]
    assert first.headers["User-Agent"] == "dokimos"
    assert not any(secret in caplog.text for secret in ("secret-path", "hidden", "s3cret-value"))


def test_attempts_are_spread_over_a_day_and_then_it_is_given_up(api, project, receiver):
    before = read_counters(api)
    hook = register(api, project, receiver.url)
    receiver.answers = [(500, {})]
    fail(api)
    for attempt in range(1, len(WAITS) + 1):
        shown = wait_for_delivery(api, project, hook, attempts=attempt)
        assert shown["status"] == "PENDING"
        let_time_pass(api)
    dead = wait_for_delivery(api, project, hook, status="DEAD")

    assert dead["attempts"] == len(receiver.requests) == len(WAITS) + 1
    assert dead["nextAttemptAt"] is None
    assert {name: value - before.get(name, 0) for name, value in read_counters(api).items()} == {
        'dokimos_alert_attempts_total{outcome="failed"}': len(WAITS) + 1,
        'dokimos_alert_attempts_total{outcome="delivered"}': 0,
        "dokimos_alerts_given_up_total": 1,
        "dokimos_alerts_in_flight": 0,
    }

    receiver.answers = [(200, {})]
    shown = api.post(hooks(project, hook, "deliveries", dead["id"], "redeliver"))
    assert shown.status_code == 200
    done = wait_for_delivery(api, project, hook, status="DELIVERED")
    assert done["attempts"] == len(WAITS) + 2
    api.post(hooks(project, hook, "deliveries", dead["id"], "redeliver"))  # also what has arrived
    assert len({request.headers["webhook-id"] for request in receiver.wait_for(len(WAITS) + 3)}) == 1


def test_the_waits_take_less_than_a_day_and_grow():
    waits = [[next_wait(number, None, chance) for chance in (0.0, 0.5, 1.0)] for number in range(1, 11)]

    assert all(low < middle < high for low, middle, high in waits)
    assert all(earlier[2] < later[0] for earlier, later in pairwise(waits))
    assert 18 * 3600 < sum(low for low, _, _ in waits) < sum(high for _, _, high in waits) < 24 * 3600
    assert next_wait(11, 5.0, 0.5) is None


def test_a_receiver_may_ask_to_wait():
    assert next_wait(1, 120.0, 0.5) == 120.0
    assert next_wait(5, 120.0, 0.5) == WAITS[4]
    assert next_wait(1, 1e9, 0.5) == alert_schedule.MAX_WAIT


def test_retry_after_is_honoured(api, project, receiver):
    hook = register(api, project, receiver.url)
    receiver.answers = [(429, {"Retry-After": "7200"})]
    fail(api)
    wait_for_delivery(api, project, hook, attempts=1)

    (row,) = read(api, select(ALERT_DELIVERIES))
    assert row.next_attempt_at - row.scheduled_at == 7_200_000_000


def test_a_receiver_that_is_gone_is_not_called_again(api, project, receiver):
    hook = register(api, project, receiver.url)
    receiver.answers = [(500, {}), (410, {})]
    fail(api)
    wait_for_delivery(api, project, hook, attempts=1)
    fail(api)
    wait_for_delivery(api, project, hook, status="DEAD")

    shown = api.get(hooks(project, hook)).json()
    assert shown["enabled"] is False
    assert "410" in shown["disabledReason"]
    assert {each["status"] for each in deliveries(api, project, hook)} == {"DEAD"}
    (dead, _) = deliveries(api, project, hook)
    refused = api.post(hooks(project, hook, "deliveries", dead["id"], "redeliver"))
    assert refused.status_code == 409

    receiver.answers = [(200, {})]
    enabled = api.put(hooks(project, hook), json={"url": receiver.url}).json()
    assert (enabled["enabled"], enabled["disabledReason"]) == (True, None)
    api.post(hooks(project, hook, "deliveries", dead["id"], "redeliver"))
    wait_for_delivery(api, project, hook, status="DELIVERED")


def test_a_webhook_that_failed_for_days_is_disabled_with_the_reason(api, project, receiver):
    hook = register(api, project, receiver.url)
    receiver.answers = [(500, {})]
    for number in range(MAX_LOST):
        fail(api)
        wait_for_delivery(api, project, hook, attempts=1)
        # The rest of its day, and then of several.
        write(api, update(ALERT_DELIVERIES).values(failures=len(WAITS)))
        write(api, update(ALERT_WEBHOOKS).values(failing_since=ALERT_WEBHOOKS.c.failing_since - 2 * DAY))
        assert api.get(hooks(project, hook)).json()["enabled"] is True
        let_time_pass(api)
        wait_for_delivery(api, project, hook, status="DEAD")
        assert number < MAX_LOST - 1 or 2 * (number + 1) > MAX_FAILING_DAYS

    shown = api.get(hooks(project, hook)).json()
    assert shown["enabled"] is False
    assert f"{MAX_LOST} alerts were given up" in shown["disabledReason"]
    fail(api)
    assert len(deliveries(api, project, hook)) == MAX_LOST


def test_what_waits_for_a_webhook_that_is_disabled_is_given_up(api, project, receiver):
    hook = register(api, project, receiver.url)
    receiver.answers = [(500, {})]
    fail(api)
    wait_for_delivery(api, project, hook, attempts=1)

    api.put(hooks(project, hook), json={"url": receiver.url, "enabled": False})

    (shown,) = deliveries(api, project, hook)
    assert (shown["status"], shown["lastError"]) == ("DEAD", "The webhook is disabled.")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(api, project, receiver, status):
    with open_receiver() as target:
        hook = register(api, project, receiver.url)
        receiver.answers = [(status, {"Location": target.url})]
        fail(api)
        shown = wait_for_delivery(api, project, hook, attempts=1)

        assert (shown["status"], shown["lastStatusCode"]) == ("PENDING", status)
        assert "redirects are not followed" in shown["lastError"]
        assert target.requests == []


@pytest.fixture
def short_timeouts(monkeypatch):
    """A limit of a tenth of the real one, also for the connection: what never ends takes a second."""
    monkeypatch.setattr(http_webhook, "TOTAL_SECONDS", 1.0)
    monkeypatch.setattr(http_webhook, "CONNECT_SECONDS", 60.0)


def test_an_answer_of_200_megabytes_is_not_read(api, project):
    written = []

    def answer(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 209715200\r\n\r\n")
        for _ in range(200):
            connection.sendall(b"x" * 2**20)
            written.append(1)

    with raw_receiver(answer) as url:
        hook = register(api, project, url)
        shown = api.post(hooks(project, hook, "test")).json()

    assert (shown["status"], shown["lastStatusCode"]) == ("DELIVERED", 200)
    assert len(written) < 50  # what fits into the buffers of the system


def test_a_receiver_that_never_answers_is_given_up(api, project, short_timeouts):
    def answer(connection):
        connection.recv(1)

    with raw_receiver(answer) as url:
        hook = register(api, project, url)
        shown = api.post(hooks(project, hook, "test")).json()

    assert (shown["status"], shown["lastError"]) == ("DEAD", "No answer within 1 s.")


def test_a_receiver_that_drips_is_given_up(api, project, short_timeouts):
    def answer(connection):
        connection.settimeout(0.05)
        for byte in b"HTTP/1.1 200 OK\r\nX-Drip: " + b"x" * 10_000:
            connection.sendall(bytes([byte]))
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                pass

    with raw_receiver(answer) as url:
        hook = register(api, project, url)
        shown = api.post(hooks(project, hook, "test")).json()

    assert (shown["status"], shown["lastError"]) == ("DEAD", "No answer within 1 s.")


@pytest.mark.parametrize(
    "reply", [b"garbage\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n"], ids=len
)
def test_an_answer_that_is_not_http_is_a_failure(api, project, reply):
    with raw_receiver(lambda connection: connection.sendall(reply)) as url:
        hook = register(api, project, url)
        shown = api.post(hooks(project, hook, "test")).json()

    assert shown["status"] == "DEAD"
    assert shown["lastError"]


def test_slow_receivers_hold_up_no_others(api, project, receiver, monkeypatch):
    """Eight at once, of which four may have failed before; a webhook is called once at a time."""
    is_over = threading.Event()
    calls = []

    async def post(url, body, headers, *, policy):
        calls.append(url)
        if "slow" in url:
            while not is_over.is_set():
                await asyncio.sleep(0.005)
        return WebhookReply(200, None)

    monkeypatch.setattr(api.app.state.alerts, "_post", post)
    hanging = [register(api, project, f"http://127.0.0.1:9/slow{number}") for number in range(6)]
    write(api, update(ALERT_WEBHOOKS).values(failing_since=1))
    quick = register(api, project, "http://127.0.0.1:9/quick")
    for _ in range(3):
        fail(api)
        wait_for_delivery(api, project, quick, status="DELIVERED")

    assert sum("slow" in url for url in calls) == 4
    is_over.set()
    for hook in hanging:
        wait_for_delivery(api, project, hook, status="DELIVERED")


def test_a_name_that_leads_to_a_private_address_is_refused_when_it_is_called(serve, receiver, monkeypatch):
    """As often as it is called: a name that led elsewhere when it was registered gains nothing."""

    def resolve(host, port, *args, **kwargs):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", receiver.port))]

    api = serve(api_key="k")
    project = begin(api, ADMIN)
    hook = register(api, project, f"http://hooks.example.com:{receiver.port}/secret-path", ADMIN)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    fail(api, ADMIN)
    shown = wait_for_delivery(api, project, hook, ADMIN, attempts=1)

    assert shown["status"] == "PENDING"
    assert f"DOKIMOS_ALLOWED_PRIVATE_HOSTS=hooks.example.com:{receiver.port}" in shown["lastError"]
    assert "secret-path" not in shown["lastError"]
    assert receiver.requests == []


def test_a_private_host_that_is_allowed_is_called(serve, receiver):
    api = serve(api_key="k", address_policy=AddressPolicy.parse(f"127.0.0.1:{receiver.port}"))
    project = begin(api, ADMIN)
    register(api, project, receiver.url, ADMIN)
    fail(api, ADMIN)

    receiver.wait_for(1)


def test_a_full_queue_keeps_further_alerts_in_the_log(api, project, receiver, monkeypatch):
    monkeypatch.setattr(alert_outbox, "MAX_WAITING", 2)
    hook = register(api, project, receiver.url)
    receiver.answers = [(500, {})]
    for _ in range(3):
        fail(api)
    statuses = [each["status"] for each in deliveries(api, project, hook)]

    assert statuses == ["DEAD", "PENDING", "PENDING"]
    (dead, *_) = deliveries(api, project, hook, status="DEAD")
    assert dead["lastError"] == "2 alerts waited for the webhook already."
    receiver.answers = [(200, {})]
    api.post(hooks(project, hook, "deliveries", dead["id"], "redeliver"))
    wait_for_delivery(api, project, hook, id=dead["id"], status="DELIVERED")


def test_the_log_is_a_list_with_pages_and_is_kept_for_some_time(api, project, receiver):
    hook = register(api, project, receiver.url)
    runs = [fail(api) for _ in range(3)]
    for delivery in deliveries(api, project, hook):
        wait_until_delivered(api, project, hook, delivery["id"])
    everything = deliveries(api, project, hook)
    assert [each["runId"] for each in everything] == runs[::-1]
    assert deliveries(api, project, hook, limit=1) == everything[:1]
    assert deliveries(api, project, hook, limit=5, after=everything[0]["id"]) == everything[1:]
    assert deliveries(api, project, hook, sort="createdAt") == everything[::-1]
    assert deliveries(api, project, hook, status="DEAD") == []
    assert api.get(hooks(project, hook, "deliveries"), params={"status": "LOST"}).status_code == 400

    old = (ALERT_DELIVERIES.c.id == everything[2]["id"],)
    write(
        api,
        update(ALERT_DELIVERIES).where(*old).values(finished_at=ALERT_DELIVERIES.c.finished_at - 31 * DAY),
    )
    api.portal.call(api.app.state.alerts.tidy)
    assert deliveries(api, project, hook) == everything[:2]


def wait_until_delivered(api, project, hook, delivery):
    def is_delivered():
        return any(
            each["id"] == delivery and each["status"] == "DELIVERED"
            for each in deliveries(api, project, hook)
        )

    wait_until(is_delivered, "a delivery")


def test_alerts_that_wait_outlast_the_log(api, project, receiver):
    hook = register(api, project, receiver.url)
    receiver.answers = [(500, {})]
    fail(api)
    wait_for_delivery(api, project, hook, attempts=1)
    write(api, update(ALERT_DELIVERIES).values(created_at=1))
    api.portal.call(api.app.state.alerts.tidy)

    assert len(deliveries(api, project, hook)) == 1


# Clocks, and several servers


def test_a_clock_that_is_set_back_holds_nothing_up(api, project, receiver):
    """What was planned, or is being sent, in a future that is far off now."""
    hook = register(api, project, receiver.url)
    receiver.answers = [(500, {}), (200, {})]
    fail(api)
    wait_for_delivery(api, project, hook, attempts=1)
    let_time_pass(api, -400 * DAY)  # the clock is 400 days behind what is stored

    wait_for_delivery(api, project, hook, status="DELIVERED")

    write(
        api,
        update(ALERT_DELIVERIES).values(
            status="PENDING", lease="of a server that was killed", leased_at=400 * DAY + 10**16,
            leased_until=401 * DAY + 10**16, next_attempt_at=0,
        ),
    )  # fmt: skip
    api.portal.call(api.app.state.alerts.wake)
    wait_for_delivery(api, project, hook, status="DELIVERED", attempts=3)


def test_a_clock_that_is_set_forward_gives_nothing_up(api, project, receiver):
    """However far: the number of attempts counts, and not the time that seems to have passed."""
    hook = register(api, project, receiver.url)
    receiver.answers = [(500, {}), (500, {}), (200, {})]
    fail(api)
    for attempt in (1, 2):
        assert wait_for_delivery(api, project, hook, attempts=attempt)["status"] == "PENDING"
        let_time_pass(api, 400 * DAY)

    wait_for_delivery(api, project, hook, status="DELIVERED", attempts=3)


def test_a_clock_that_is_set_forward_removes_nothing_from_the_log(api, project, receiver, monkeypatch):
    hook = register(api, project, receiver.url)
    fail(api)
    kept = wait_for_delivery(api, project, hook, status="DELIVERED")
    wrong = clock._Reading(shown=clock.now() + 400 * DAY, steady=clock._steady(), error=0)
    monkeypatch.setattr(clock, "_reading", wrong)

    api.portal.call(api.app.state.alerts.tidy)

    assert deliveries(api, project, hook) == [kept]


def queue_without_sending(api, project, hook, count):
    """Rows in the outbox that the worker of this server leaves alone."""
    (webhook,) = [row for row in read(api, select(ALERT_WEBHOOKS)) if row.id == hook]
    payload = json.dumps({"test": True})

    def queue(connection):
        return [queue_delivery(connection, webhook, payload, None) for _ in range(count)]

    return api.portal.call(api.app.state.database.write, queue)


def claim(api, lease="other", most=8, most_failing=4):
    return api.portal.call(
        api.app.state.database.write,
        lambda connection: claim_alerts(connection, lease, most=most, most_failing=most_failing),
    )


@pytest.fixture
def idle_workers(monkeypatch):
    """Servers whose workers send nothing by themselves."""

    async def claim_nothing(self):
        return []

    monkeypatch.setattr("dokimos.server._workers.alert_delivery.AlertDelivery._claim", claim_nothing)


def test_a_webhook_is_called_once_at_a_time_by_all_servers(idle_workers, serve):
    api, other = serve(), serve()
    start(api)
    project = project_of(api)
    hooks_ = [register(api, project, f"http://127.0.0.1:9/{number}") for number in range(3)]
    for hook in hooks_:
        queue_without_sending(api, project, hook, 2)

    first = claim(api, "one", most=2)
    second = claim(other, "two")

    assert len(first) == 2
    assert len(second) == 1
    assert len({each.webhook_id for each in (*first, *second)}) == 3
    assert claim(api) == []


def test_servers_that_claim_at_once_share_the_work(idle_workers, serve):
    servers = [serve(), serve()]
    api = servers[0]
    start(api)
    project = project_of(api)
    expected = set()
    for number in range(10):
        hook = register(api, project, f"http://127.0.0.1:9/{number}")
        expected.update(queue_without_sending(api, project, hook, 1))

    with ThreadPoolExecutor(4) as threads:
        batches = list(threads.map(lambda n: claim(servers[n % 2], f"lease {n}", most=3), range(16)))

    # Whoever looks at alerts while another server takes them leaves them to it, and looks again later.
    while batch := claim(api, most=3):
        batches.append(batch)
    claimed = [each.delivery_id for batch in batches for each in batch]
    assert sorted(claimed) == sorted(expected)


def test_a_lease_ends_and_what_another_server_stored_late_counts_only_if_it_arrived(
    idle_workers, api, project
):
    hook = register(api, project, "http://127.0.0.1:9/")
    queue_without_sending(api, project, hook, 1)
    (late,) = claim(api, "late")
    write(api, update(ALERT_DELIVERIES).values(leased_until=0))
    (current,) = claim(api, "current")
    assert late.delivery_id == current.delivery_id

    def store(who, error):
        attempt = Attempt(error=error)
        api.portal.call(
            api.app.state.database.write, lambda connection: store_attempt(connection, who, attempt, None)
        )
        return deliveries(api, project, hook)[0]

    assert store(late, "No answer.")["status"] == "PENDING"
    assert store(late, None)["status"] == "DELIVERED"
    assert store(current, "No answer.")["status"] == "DELIVERED"


def test_a_stop_waits_for_what_is_being_sent(serve):
    began = threading.Event()
    go_on = threading.Event()

    def answer(connection):
        began.set()
        assert go_on.wait(PATIENCE)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    api = serve()
    project = begin(api)
    with raw_receiver(answer) as url:
        hook = register(api, project, url)
        fail(api)
        assert began.wait(PATIENCE)
        stopping = threading.Thread(target=lambda: api.portal.call(api.app.state.alerts.stop))
        stopping.start()
        go_on.set()
        stopping.join(PATIENCE)
        assert deliveries(api, project, hook)[0]["status"] == "DELIVERED"


def test_events_tell_of_webhooks_and_alerts(api, project, receiver, monkeypatch):
    published = []
    monkeypatch.setattr(api.app.state.events, "publish", lambda key, event: published.append(event))
    hook = register(api, project, receiver.url)
    fail(api)
    wait_for_delivery(api, project, hook, status="DELIVERED")
    api.delete(hooks(project, hook))

    def told():
        return [event for event in published if event.kind.startswith(("webhook", "alert"))]

    wait_until(lambda: len(told()) == 3, "the events")
    told = told()
    assert [event.kind for event in told] == ["webhook.changed", "alert.updated", "webhook.deleted"]
    assert {event.data["webhookId"] for event in told} == {hook}
    assert told[1].data["status"] == "DELIVERED"

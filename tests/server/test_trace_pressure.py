"""More exports than can be stored: they are refused in time, and what was acknowledged is there."""

import asyncio
import os
import random
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from tests.server.killed_clients import Client, Progress, sending
from tests.server.server_process import PATIENCE, execute
from tests.server.trace_exports import accept, export, post, rows, span, to_message
from tests.server.trace_server import log_export, message_log
from tests.servers.ports import find_port

from dokimos.server._db.trace_tables import TRACES
from dokimos.server._services.errors import UnavailableError
from dokimos.server._services.traces.ingestion_queue import IngestionQueue

try:
    import grpc
except ImportError:  # the extra 'grpc' is not installed: the other ways are tested
    grpc = None
else:
    GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
SERVICE = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
KILLS = 60 if "DOKIMOS_LONG_TESTS" in os.environ else 3


def test_bytes_beyond_the_limit_are_refused_until_others_are_stored():
    queue = IngestionQueue(100)
    with queue.hold() as first:
        first(60)
        with queue.hold() as second:
            second(30)
            with pytest.raises(UnavailableError) as refusal:
                second(11)
        assert refusal.value.retry_seconds == 2
        assert queue.waiting_bytes == 60  # what was refused holds nothing
    with queue.hold() as alone:  # larger than what may wait: nothing else waits
        for _ in range(5):
            alone(50)
    assert queue.waiting_bytes == 0


async def test_exports_are_parsed_in_their_order_and_few_at_a_time():
    queue = IngestionQueue(1000, parsed_limit=100)
    begun, ends = [], {}

    async def parse(name, size):
        async with queue.take_turn(size):
            begun.append(name)
            await ends[name].wait()

    tasks = {}
    for name, size in (("a", 60), ("large", 500), ("b", 40), ("c", 60)):
        ends[name] = asyncio.Event()
        tasks[name] = asyncio.create_task(parse(name, size))
    await run_all()
    assert begun == ["a"]  # "b" would fit beside it, and waits for its turn
    ends["a"].set()
    await run_all()
    assert begun == ["a", "large"]
    tasks["b"].cancel()  # its client has hung up
    ends["large"].set()
    await run_all()
    assert begun == ["a", "large", "c"]
    ends["c"].set()
    await run_all()
    assert tasks["c"].done()
    async with queue.take_turn(10_000):
        pass


async def run_all():
    """Let all tasks run until each waits."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_server_with_too_many_exports_says_when_to_come_again(api):
    held = api.app.state.trace_ingestion.queue.hold()
    count = held.__enter__()
    count(api.app.state.settings.traces.max_waiting_bytes)
    for path, retry in (("/api/v1/traces", "message"), ("/v1/traces", "message")):
        answer = post(api, export(span(1)), path=path)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "2"
        assert "send this export again" in answer.json()[retry]
    held.__exit__(None, None, None)
    accept(api, export(span(1)))
    assert rows(api, TRACES)[0]["span_count"] == 1


def test_a_flood_is_refused_or_stored(api):
    """Everything acknowledged is there, and nothing is counted as waiting in the end."""
    queue = api.app.state.trace_ingestion.queue
    queue._limit = 40_000

    def flood(number):
        spans = [span(each, {"input": "x" * 500}, trace=f"{number + 1:032x}") for each in range(1, 21)]
        return post(api, export(*spans)).status_code

    with ThreadPoolExecutor(12) as threads:
        statuses = list(threads.map(flood, range(60)))
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) == len(rows(api, TRACES))
    assert all(each["span_count"] == 20 for each in rows(api, TRACES))
    assert queue.waiting_bytes == 0


class TraceClient(Client):
    """Sends spans of a few traces, and repeats what was not acknowledged, as exporters do."""

    def __init__(self, number, progress):
        super().__init__(progress)
        self._number = number
        self.acknowledged = {}
        """The numbers of spans of each trace that the server has acknowledged."""

    def step(self, server):
        trace = f"{self._number + 1:08x}{self.position // 5 + 1:024x}"
        # Some come again that were stored before.
        first = self.position % 5 * 10 + 1
        numbers = range(max(1, first - 4), first + 10)
        spans = [
            span(each, {"input": f"question {each}", "gen_ai.usage.input_tokens": 1}, trace=trace)
            for each in numbers
        ]
        self.send(server, spans)
        self.acknowledged.setdefault(trace, set()).update(numbers)

    def send(self, server, spans):
        status, answer = server.call("POST", "/traces", export(*spans))
        assert (status, answer["acceptedSpans"]) == (200, len(spans)), answer


class GrpcTraceClient(TraceClient):
    """Does so over gRPC, each time on a connection of its own."""

    def __init__(self, number, progress, port):
        super().__init__(number, progress)
        self._port = port

    def send(self, server, spans):
        content = to_message(export(*spans)).SerializeToString()
        with grpc.insecure_channel(f"127.0.0.1:{self._port}") as channel:
            try:
                answer = channel.unary_unary(SERVICE)(content, timeout=PATIENCE)
            except grpc.RpcError as error:
                if error.code() not in GONE:
                    raise
                raise ConnectionError("The server is gone.") from error
        assert answer == b"", "all of it is accepted"


class LogClient(TraceClient):
    """Sends logs of spans with what these were asked, in turns before and after the spans."""

    def __init__(self, number, progress):
        super().__init__(number, progress)
        self.logged = set()
        """The spans whose logs the server has acknowledged."""

    def step(self, server):
        trace = f"{self._number + 1:08x}{self.position // 4 + 1:024x}"
        numbers = range(1, 8)
        if self.position % 4 in (0, 3):
            records = [{**message_log(f"question {each}", number=each), "traceId": trace} for each in numbers]
            status, answer = server.call("POST", "/v1/logs", log_export(*records), root="")
            assert (status, answer) == (200, {}), answer
            self.logged.update((trace, f"{each:016x}") for each in numbers)
            return
        self.send(server, [span(each, {"gen_ai.operation.name": "chat"}, trace=trace) for each in numbers])
        self.acknowledged.setdefault(trace, set()).update(numbers)


def test_a_server_that_is_killed_during_ingestion_loses_and_doubles_nothing(process, database_settings):
    """Spans come over HTTP and gRPC, and logs beside them."""
    pick = random.Random(17)
    progress = Progress()
    port = find_port()
    over_grpc = [] if grpc is None else [GrpcTraceClient(2, progress, port)]
    clients = [*(TraceClient(number, progress) for number in range(2)), *over_grpc, LogClient(3, progress)]
    options = {} if grpc is None else {"grpc_port": port}
    for _ in range(KILLS):
        server = process(**options)
        with sending(clients, server):
            progress.wait_for(pick.randrange(1, 40))
            server.kill()
        check(database_settings, clients)
    server = process(**options)
    for client in clients:  # what was under way is sent again
        client.go_on(server)
    check(database_settings, clients)
    assert all(client.acknowledged for client in clients)


def check(settings, clients):
    """All that was acknowledged is there once, and the counts are those of the spans."""
    check_logs(settings, clients[-1])
    spans = query(
        settings, "SELECT trace_id, span_id FROM spans JOIN traces ON traces.id = spans.trace ORDER BY 1, 2"
    )
    assert len(set(spans)) == len(spans)
    sent = {
        (trace, f"{number:016x}")
        for client in clients
        for trace, numbers in client.acknowledged.items()
        for number in numbers
    }
    assert sent <= set(spans)
    ((counted,),) = query(settings, "SELECT SUM(span_count) FROM traces")
    ((hours,),) = query(settings, "SELECT SUM(span_count) FROM trace_hours")
    ((traces,),) = query(settings, "SELECT COUNT(*) FROM traces WHERE span_count > 0")
    ((in_hours,),) = query(settings, "SELECT SUM(trace_count) FROM trace_hours")
    assert (counted, in_hours) == (len(spans), traces)
    assert hours == counted


def check_logs(settings, client):
    """Each log is there once, and says what its span was asked, whichever came first."""
    counts = query(settings, "SELECT trace_id, span_id, count(*) FROM span_logs GROUP BY 1, 2")
    assert {count for _, _, count in counts} <= {1}
    assert client.logged <= {(trace, span_id) for trace, span_id, _ in counts}
    texts = query(
        settings,
        "SELECT trace_id, span_id, spans.input_text FROM spans JOIN traces ON traces.id = spans.trace",
    )
    stored = {(trace, span_id): text for trace, span_id, text in texts}
    for trace, numbers in client.acknowledged.items():
        for number in numbers:
            key = (trace, f"{number:016x}")
            if key in client.logged:
                assert stored[key] == f"question {number}"


def query(settings, statement):
    """Run a query on the database of the traces, beside a server."""
    if "data_dir" not in settings:
        return execute(settings, statement)
    with closing(sqlite3.connect(settings["data_dir"] / "traces.db")) as connection:
        return connection.execute(statement).fetchall()

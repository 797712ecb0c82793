"""Traces and logs that exporters send over gRPC: the rules of HTTP, with the codes of gRPC."""

import gzip
import random
import re
import shutil
import socket
import sqlite3
import sys
import threading
import zlib
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from itertools import count

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from starlette.testclient import TestClient
from tests.server.server_process import PATIENCE, PATIENT, Process, wait_until
from tests.server.test_access import make_key
from tests.server.test_audit_log import read_log
from tests.server.test_metrics import read as read_metrics
from tests.server.test_metrics import value
from tests.server.trace_exports import clear, export, rows, span, to_message

from dokimos._core.extras import require
from dokimos.errors import ConfigurationError, MissingExtraError
from dokimos.server import ServerSettings, create_app
from dokimos.server._api.traces.otlp_errors import decode_status, encode_status
from dokimos.server._db.trace_tables import TRACES
from dokimos.server._grpc.calls import parse_peer
from dokimos.server._grpc.endpoint import GrpcEndpoint
from dokimos.server._grpc.messages import unpack_message
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._sign_in_settings import RoleRules, TrustedHeader
from dokimos.server._trace_settings import TraceSettings

grpc = pytest.importorskip("grpc", reason="the extra 'grpc' is not installed")

TRACE_SERVICE = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOG_SERVICE = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
HEALTH = "/grpc.health.v1.Health/Check"
Code = grpc.StatusCode


@pytest.fixture
def database_settings(migrated_sqlite, tmp_path):
    """SQLite alone: behind the calls is the ingestion that is tested on both databases elsewhere."""
    for file in migrated_sqlite.glob("*.db"):
        shutil.copy(file, tmp_path)
    return {"data_dir": tmp_path}


@pytest.fixture
def listen_for_grpc(serve):
    """A function that starts a server with settings, and returns a client of HTTP and one of gRPC."""
    with ExitStack() as running:

        def start(**settings):
            api = serve(**settings)
            return api, running.enter_context(open_port(api))

        yield start


@pytest.fixture(scope="module")
def shared_grpc(migrated_sqlite, tmp_path_factory):
    """Two clients of a server without keys, which tests share that need no other settings."""
    folder = tmp_path_factory.mktemp("server")
    for file in migrated_sqlite.glob("*.db"):
        shutil.copy(file, folder)
    app = create_app(ServerSettings(host="127.0.0.1", data_dir=folder, **PATIENT))
    with TestClient(app, raise_server_exceptions=False) as api, open_port(api) as client:
        yield api, client


@pytest.fixture
def clients(shared_grpc):
    """The clients of a server without keys and without traces."""
    api, client = shared_grpc
    clear(api)
    return api, client


@contextmanager
def open_port(api):
    """Have a server listen for gRPC; yield a client of it."""
    endpoint = GrpcEndpoint(api.app, replace(api.app.state.settings, grpc_port=0))
    api.portal.call(endpoint.start)
    client = Client(endpoint.port)
    try:
        yield client
    finally:
        client.channel.close()
        api.portal.call(endpoint.stop, 0.0)


class Client:
    """An exporter without its conveniences."""

    def __init__(self, port):
        self.port = port
        options = [("grpc.max_send_message_length", -1)]
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=options)

    def begin(self, content, path=TRACE_SERVICE, compression=None, timeout=PATIENCE, **metadata):
        """Begin a call, which may be cancelled."""
        content = content if isinstance(content, bytes) else to_message(content).SerializeToString()
        fields = [(name.replace("_", "-").lower(), each) for name, each in metadata.items()]
        method = self.channel.unary_unary(path)
        return method.future(content, metadata=fields, compression=compression, timeout=timeout)

    def send(self, content, **options):
        """Return the answer to a call that is accepted."""
        answer = ExportTraceServiceResponse()
        answer.ParseFromString(self.begin(content, **options).result())
        return answer

    def fail(self, content, **options):
        """Return the error of a call that is refused."""
        error = self.begin(content, **options).exception()
        assert error is not None
        return error


def details_of(error):
    return dict(error.trailing_metadata())


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_an_export_is_stored_as_over_http(clients, compression):
    api, client = clients
    tree = export(*(span(number, {"input": "x" * 300}) for number in range(1, 6)), service="app")
    assert client.send(tree, compression=compression) == ExportTraceServiceResponse()
    assert [each["span_count"] for each in rows(api, TRACES)] == [5]


def test_an_empty_export_is_accepted(clients):
    _, client = clients
    assert client.send(b"") == ExportTraceServiceResponse()


def test_spans_that_are_rejected_cost_no_others(clients):
    api, client = clients
    answer = client.send(export(span(1), span(2, spanId="")))
    assert answer.partial_success.rejected_spans == 1
    assert "Spans were rejected" in answer.partial_success.error_message
    assert [each["span_count"] for each in rows(api, TRACES)] == [1]


def test_logs_are_taken_in(clients):
    _, client = clients
    record = b"\x0a\x06\x12\x04\x12\x02\x18\x01"  # resource_logs.scope_logs.log_records, without a span
    answer = ExportLogsServiceResponse()
    answer.ParseFromString(client.begin(record, path=LOG_SERVICE).result())
    assert answer.partial_success.rejected_log_records == 1


def test_keys_roles_and_tenants_are_those_of_http(listen_for_grpc):
    api, client = listen_for_grpc(api_key="admin-key")
    tree = export(span(1))
    missing = client.fail(tree)
    assert (missing.code(), missing.details()) == (Code.UNAUTHENTICATED, "Invalid or missing API key")
    assert client.fail(tree, Authorization="Bearer wrong").code() == Code.UNAUTHENTICATED
    viewer = make_key(api, "VIEWER")
    refusal = client.fail(tree, **viewer)
    assert (refusal.code(), refusal.details()) == (
        Code.PERMISSION_DENIED,
        "Insufficient role: EDITOR required",
    )
    for tenant in ("acme", "globex"):
        client.send(tree, **make_key(api, tenant=tenant))
    assert sorted(each["tenant_id"] for each in rows(api, TRACES)) == ["acme", "globex"]
    refusals = {(each["status"], each["details"]["reason"]) for each in read_log(api, outcome="refused")}
    assert refusals == {(401, "unauthorized"), (403, "role")}


def test_an_address_with_many_wrong_keys_is_refused_for_a_while(listen_for_grpc):
    _, client = listen_for_grpc(api_key="admin-key", failed_logins_per_minute=2)
    for number in range(2):
        wrong = client.fail(export(span(1)), Authorization=f"Bearer wrong-{number}")
        assert wrong.code() == Code.UNAUTHENTICATED
    refusal = client.fail(export(span(1)), Authorization="Bearer wrong-3")
    assert refusal.code() == Code.RESOURCE_EXHAUSTED
    assert "Too many wrong keys" in refusal.details()


def test_a_key_has_the_limit_that_it_has_over_http_and_says_when_to_come_again(listen_for_grpc):
    api, client = listen_for_grpc(api_key="admin-key", requests_per_minute=1)
    key = make_key(api)
    client.send(export(span(1)), **key)
    refusal = client.fail(export(span(1)), **key)
    assert refusal.code() == Code.RESOURCE_EXHAUSTED
    assert "requests per minute" in refusal.details()
    assert b"google.rpc.RetryInfo" in details_of(refusal)["grpc-status-details-bin"]
    assert 0 < details_of(refusal)["google.rpc.retryinfo-bin"][3] <= 60


def test_whom_a_proxy_names_may_write_and_whom_others_name_may_not(listen_for_grpc):
    header = TrustedHeader(user="x-user", rules=RoleRules(default_role="EDITOR"))
    page = {"sec_fetch_site": "same-origin"}
    for proxy, code in (("127.0.0.1", None), ("192.0.2.1", Code.UNAUTHENTICATED)):
        _, client = listen_for_grpc(api_key="k", trusted_proxies=(proxy,), trusted_header=header)
        error = client.begin(export(span(1)), x_user="ada", **page).exception()
        assert (None if error is None else error.code()) == code


def test_an_export_over_the_limit_is_refused_with_the_limit_also_compressed(listen_for_grpc):
    traces = TraceSettings(max_export_bytes=1024 * 1024)
    api, client = listen_for_grpc(traces=traces)
    large = to_message(export(span(1, {"input": "x" * 2_000_000}))).SerializeToString()
    refusal = client.fail(large)
    assert refusal.code() == Code.RESOURCE_EXHAUSTED
    assert "1048576" in refusal.details()
    refusal = client.fail(large, compression=grpc.Compression.Gzip)
    assert refusal.code() == Code.RESOURCE_EXHAUSTED
    assert refusal.details() == "The body is larger than 1 MiB; send it in smaller parts."
    assert rows(api, TRACES) == []


def test_a_small_message_that_unpacks_to_a_large_one_is_given_up_early():
    message = gzip.compress(bytes(50_000_000))
    parts = unpack_message(message)
    assert [len(next(parts)) for _ in range(3)] == [1024 * 1024] * 3
    assert b"".join(unpack_message(zlib.compress(b"x" * 100))) == b"x" * 100
    for broken in (message[:1000], b"\x1f\x8bnothing"):
        with pytest.raises(InvalidRequestError, match="compress"):
            list(unpack_message(broken))


def test_a_full_queue_says_when_to_come_again(clients):
    api, client = clients
    with api.app.state.trace_ingestion.queue.hold() as hold:
        hold(api.app.state.settings.traces.max_waiting_bytes)
        refusal = client.fail(export(span(1)))
    assert refusal.code() == Code.UNAVAILABLE
    assert "send this export again" in refusal.details()
    assert details_of(refusal)["google.rpc.retryinfo-bin"] == b"\x0a\x02\x08\x02"
    assert details_of(refusal)["x-request-id"]
    assert decode_status(details_of(refusal)["grpc-status-details-bin"])[0] == Code.UNAVAILABLE.value[0]
    client.send(export(span(1)))


def test_what_is_not_an_export_is_refused(clients):
    api, client = clients
    pick = random.Random(5)
    good = to_message(export(*(span(number) for number in range(1, 9)))).SerializeToString()
    codes = {client.fail(good[: len(good) // 2]).code(), client.fail(b"\x1f\x8bnothing").code()}
    assert codes == {Code.INVALID_ARGUMENT}
    for _ in range(60):
        damaged = bytearray(good)
        damaged[pick.randrange(len(damaged))] = pick.randrange(256)
        error = client.begin(bytes(damaged[: pick.randrange(len(damaged))])).exception()
        assert error is None or error.code() == Code.INVALID_ARGUMENT
    for path in (TRACE_SERVICE + "s", "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"):
        assert client.fail(good, path=path).code() == Code.UNIMPLEMENTED
    assert client.fail(good, authorization="x" * 100_000).code() == Code.RESOURCE_EXHAUSTED
    client.send(good)
    assert api.app.state.trace_ingestion.queue.waiting_bytes == 0


def test_a_stream_without_a_message_is_refused(clients):
    _, client = clients
    with pytest.raises(grpc.RpcError) as refusal:
        client.channel.stream_unary(TRACE_SERVICE)(iter(()), timeout=PATIENCE)
    assert refusal.value.code() == Code.INVALID_ARGUMENT
    assert "ended before its message" in refusal.value.details()


def test_bytes_that_are_not_http_2_cost_no_calls(shared_grpc):
    _, client = shared_grpc
    pick = random.Random(8)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for start in (b"", b"POST /v1/traces HTTP/1.1\r\n\r\n", preface):
        with socket.create_connection(("127.0.0.1", client.port)) as connection:
            connection.sendall(start + pick.randbytes(2000))
            connection.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                while connection.recv(65_536):
                    pass
    assert client.send(export(span(1))) == ExportTraceServiceResponse()


def test_a_call_without_a_key_is_refused_before_its_message_is_read(listen_for_grpc):
    _, client = listen_for_grpc(api_key="admin-key")
    is_refused = threading.Event()

    def send_nothing_yet():
        is_refused.wait(PATIENCE)
        yield b""

    call = client.channel.stream_unary(TRACE_SERVICE).future(send_nothing_yet(), timeout=PATIENCE)
    assert call.exception().code() == Code.UNAUTHENTICATED
    is_refused.set()


def test_a_call_that_is_cancelled_leaves_nothing_behind(clients):
    api, client = clients
    queue = api.app.state.trace_ingestion.queue
    for _ in range(20):
        client.begin(export(*(span(number) for number in range(1, 100)))).cancel()
    assert client.fail(export(span(1)), timeout=0).code() == Code.DEADLINE_EXCEEDED
    ends = threading.Event()

    def wait_for_the_end():
        ends.wait(PATIENCE)
        yield from ()

    waiting = client.channel.stream_unary(TRACE_SERVICE).future(wait_for_the_end(), timeout=PATIENCE)
    waiting.cancel()
    ends.set()
    client.send(export(span(1)))
    wait_until(lambda: queue.waiting_bytes == 0, "all exports are stored or given up")


def test_the_health_check_says_whether_calls_can_be_served(clients):
    api, client = clients
    assert client.begin(b"", path=HEALTH).result() == b"\x08\x01"
    api.app.state.is_draining = True
    assert client.begin(b"", path=HEALTH).result() == b"\x08\x02"
    api.app.state.is_draining = False


def test_a_call_is_counted_as_a_request(clients):
    api, client = clients
    labels = {"route": "/v1/traces", "method": "POST", "status": "2xx"}
    name = "dokimos_http_request_duration_seconds_count"
    before = value(read_metrics(api), name, **labels) or 0
    client.send(export(span(1)))
    assert value(read_metrics(api), name, **labels) == before + 1


@pytest.mark.parametrize(
    ("peer", "client"),
    [
        ("ipv4:10.0.0.1:5000", ("10.0.0.1", 5000)),
        ("ipv6:%5B2001:db8::1%5D:5000", ("2001:db8::1", 5000)),
        ("ipv6:[::ffff:10.0.0.1]:5000", ("10.0.0.1", 5000)),
        ("ipv6:%5Bfe80::1%25eth0%5D:1", ("fe80::1%eth0", 1)),
        ("ipv4:nonsense:1", None),
        ("unix:/tmp/socket", None),
        ("", None),
    ],
)
def test_the_address_of_a_peer_is_that_of_its_client(peer, client):
    assert parse_peer(peer) == client


@pytest.mark.parametrize("message", ["", "x", "ü" * 70, "x" * 20_000])
def test_a_status_is_read_as_it_was_written(message):
    assert decode_status(encode_status(14, message)) == (14, message)
    assert decode_status(b"") == (2, "")


def test_a_port_in_use_is_an_error_that_names_the_option(clients):
    api, _ = clients
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = replace(api.app.state.settings, grpc_port=taken.getsockname()[1])
        with pytest.raises(ConfigurationError, match="--grpc-port"):
            api.portal.call(GrpcEndpoint(api.app, settings).start)


def test_a_server_without_grpcio_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(MissingExtraError, match=r"grpcio is not installed.*dokimos\[grpc\]"):
        require("grpc", extra="grpc")


def test_the_port_comes_from_the_environment():
    assert ServerSettings.from_environment({}).grpc_port is None
    assert ServerSettings.from_environment({"DOKIMOS_GRPC_PORT": "4317"}).grpc_port == 4317
    with pytest.raises(ConfigurationError, match="DOKIMOS_GRPC_PORT"):
        ServerSettings.from_environment({"DOKIMOS_GRPC_PORT": "70000"})


def test_a_server_that_stops_finishes_the_calls_that_have_begun(database_settings):
    server = Process({**database_settings, "grpc_port": 0})
    port = read_port(server)
    client = Client(port)
    acknowledged = []
    has_begun = threading.Event()

    def send():
        for number in count(1):
            trace = f"{number:032x}"
            if client.begin(export(span(1, trace=trace))).exception() is not None:
                return
            acknowledged.append(trace)
            has_begun.set()

    sender = threading.Thread(target=send)
    sender.start()
    assert has_begun.wait(PATIENCE)
    code, log = server.stop()
    sender.join(PATIENCE)
    client.channel.close()
    assert (code, "Traceback" in log) == (0, False), log
    with closing(sqlite3.connect(database_settings["data_dir"] / "traces.db")) as connection:
        stored = {row[0] for row in connection.execute("SELECT trace_id FROM traces")}
    assert set(acknowledged) <= stored


def read_port(server):
    """The port that a server says in its log."""
    for line in server.process.stderr:
        found = re.search(r"over gRPC at port (\d+)", line)
        if found:
            return int(found[1])
    raise AssertionError("the server says no port")

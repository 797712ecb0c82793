"""Trying a connection: what is wrong with it, by one tiny request, whatever the other side does."""

import json
import os
import socket
import ssl
import subprocess
import threading
import time
import tracemalloc
import zlib
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache

import pytest
from tests.server.alert_receiver import raw_receiver
from tests.server.server_process import PATIENCE
from tests.servers.scripted import ScriptedServer, raw, status

from dokimos._http import client
from dokimos._http.address_policy import AddressPolicy
from dokimos.errors import JudgeError
from dokimos.server._services.encryption import secret_vault
from dokimos.server._services.encryption.secret_vault import SecretVault
from dokimos.server._services.models import model_check
from dokimos.server._services.models.llm_connections import ConnectionDraft
from dokimos.server._services.models.model_access import open_model
from dokimos.server._services.models.model_check import check_model

pytest.importorskip("cryptography", reason="the extra 'encryption' is not installed")

PATH = "/api/v1/llm-connections"
KEY = "sk-not-a-real-key-1234567890"


@pytest.fixture(autouse=True)
def _quick_keys(monkeypatch):
    monkeypatch.setattr(secret_vault, "_ITERATIONS", 10)


@pytest.fixture
def model():
    with ScriptedServer(answer="ok", key=KEY) as server:
        yield server


@pytest.fixture
def api(serve):
    return serve(encryption_keys=("passphrase",))


def body_for(url, **more):
    return {"name": "judge", "baseUrl": url, "model": "scripted", "apiKey": KEY, **more}


def attempt(api, url, **more):
    answer = api.post(f"{PATH}/test", json=body_for(url, **more))
    assert answer.status_code == 200, answer.text
    assert KEY not in answer.text
    return answer.json()


@pytest.mark.parametrize("protocol", ["RESPONSES", "CHAT_COMPLETIONS"])
def test_a_model_that_answers_costs_one_tiny_call_in_the_documented_form(api, model, protocol):
    limits = {"inputPricePerMillion": 1, "outputPricePerMillion": 2}
    made = api.post(PATH, json=body_for(f"{model.url}/v1/", protocol=protocol, **limits)).json()
    check = api.post(f"{PATH}/{made['id']}/test").json()

    assert (check["ok"], check["problem"], check["statusCode"]) == (True, None, 200)
    assert (check["tokensIn"], check["tokensOut"], check["costUsd"]) == (20, 8, pytest.approx(36e-6))
    (request,) = model.received
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.prompt == "Reply with the single word: ok"
    assert not {"temperature", "seed", "response_format", "tools"} & request.body.keys()
    if protocol == "RESPONSES":
        assert request.path == "/v1/responses"
        content = [{"type": "input_text", "text": request.prompt}]
        assert request.body["input"] == [{"type": "message", "role": "user", "content": content}]
    else:
        assert request.path == "/v1/chat/completions"
        assert request.body["messages"] == [{"role": "user", "content": request.prompt}]


def test_it_is_tried_before_it_is_created_and_before_it_is_changed(api, model):
    url = f"{model.url}/v1"
    assert attempt(api, url)["ok"] is True
    assert api.get(PATH).json() == []

    made = api.post(PATH, json=body_for(url, model="one")).json()
    check = api.post(f"{PATH}/{made['id']}/test", json={"model": "two", "temperature": 1}).json()
    assert check["ok"] is True
    assert (model.received[-1].body["model"], model.received[-1].body["temperature"]) == ("two", 1)
    assert api.get(f"{PATH}/{made['id']}").json() == made
    rows = api.get("/api/v1/audit-log").json()
    rows = rows["content"] if isinstance(rows, dict) else rows
    assert [row["action"] for row in rows].count("llm-connection.test") == 2


def test_parameters_that_the_model_refuses_are_left_out(api):
    with ScriptedServer(answer="ok", refuses=("max_tokens", "max_output_tokens", "temperature")) as model:
        for protocol in ("RESPONSES", "CHAT_COMPLETIONS"):
            assert attempt(api, f"{model.url}/v1", protocol=protocol, temperature=0)["ok"] is True


@pytest.mark.parametrize(
    ("mishap", "problem", "text"),
    [
        (status(401, f"Incorrect API key provided: {KEY}."), "KEY_REFUSED", "refuses the key"),
        (status(403, "Not yours"), "KEY_REFUSED", "Not yours"),
        (status(404, "The model `scripted` does not exist"), "NOT_FOUND", "does not exist"),
        (status(429, "Rate limit reached"), "RATE_LIMITED", "Rate limit"),
        (status(429, "You exceeded your quota", error_code="insufficient_quota"), "RATE_LIMITED", "money"),
        (status(400, "No such thing"), "REFUSED", "No such thing"),
        (status(500, "boom"), "SERVER_ERROR", "boom"),
        (status(503, "loading"), "SERVER_ERROR", "loading"),
        (status(302, "moved", location="http://169.254.169.254/"), "REDIRECTED", "not followed"),
        (raw("<html><body>Welcome</body></html>"), "NOT_JSON", "Welcome"),
        (raw(""), "NOT_JSON", "empty"),
        (raw('{"hello": "world"}'), "NO_ANSWER", "no answer"),
        (raw("[" * 100_000), "NOT_JSON", "not JSON"),
        (raw(json.dumps({"error": {"message": "over", "code": 503}})), "SERVER_ERROR", "over"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_named(serve, model, mishap, problem, text):
    api = serve(encryption_keys=("passphrase",))
    model.then(mishap, times=2)  # also where the other protocol is tried

    check = attempt(api, f"{model.url}/v1")
    assert (check["ok"], check["problem"]) == (False, problem)
    assert text in check["message"]
    assert check["message"].endswith(".") or problem == "NOT_JSON"
    assert len(model.received) == (2 if problem in ("NOT_FOUND", "REFUSED", "NOT_JSON", "NO_ANSWER") else 1)
    assert "169.254" not in check["message"]


@pytest.mark.parametrize(
    ("asked", "spoken"), [("RESPONSES", "CHAT_COMPLETIONS"), ("CHAT_COMPLETIONS", "RESPONSES")]
)
def test_the_other_protocol_is_named_where_it_answers(api, model, asked, spoken):
    model.then(status(404, "Not Found"))
    check = attempt(api, f"{model.url}/v1", protocol=asked)

    assert (check["problem"], check["protocol"]) == ("WRONG_PROTOCOL", spoken)
    assert spoken in check["message"]


def test_what_has_only_the_text_in_one_piece_is_read(api, model):
    model.then(raw(json.dumps({"output_text": "ok"})))
    assert attempt(api, f"{model.url}/v1")["ok"] is True


def test_nobody_listens_and_no_such_name(api, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert attempt(api, f"http://127.0.0.1:{port}/v1")["problem"] == "UNREACHABLE"

    def resolve(*arguments, **options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    check = attempt(api, "https://models.example/v1")
    assert check["problem"] == "NAME_NOT_RESOLVED"
    assert "models.example" in check["message"]


def test_a_name_that_leads_to_a_private_address_is_refused_when_it_is_called(serve, monkeypatch):
    api = serve(api_key="k", encryption_keys=("passphrase",))
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    answer = api.post(
        f"{PATH}/test", json=body_for("https://models.example/v1"), headers={"Authorization": "Bearer k"}
    )
    check = answer.json()
    assert check["problem"] == "ADDRESS_REFUSED"
    assert "DOKIMOS_ALLOWED_PRIVATE_HOSTS=models.example:443" in check["message"]
    assert "10.0.0.1" not in check["message"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    try:
        subprocess.run([*command, "/CN=localhost", *files], check=True, capture_output=True)
    except OSError:
        pytest.skip("openssl is not installed")
    return folder / "cert.pem", folder / "key.pem"


def test_a_certificate_that_nobody_trusts_and_no_tls_at_all(api, model, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept():
            connection, _ = listener.accept()
            with suppress(OSError), connection, context.wrap_socket(connection, server_side=True) as secure:
                secure.recv(1)

        thread = threading.Thread(target=accept)
        thread.start()
        check = attempt(api, f"https://127.0.0.1:{listener.getsockname()[1]}/v1")
        thread.join(PATIENCE)
    assert check["problem"] == "TLS"
    assert "certificate" in check["message"]

    assert attempt(api, f"{model.url.replace('http', 'https')}/v1")["problem"] == "TLS"
    assert model.received == []


def judge_at(url, protocol="CHAT_COMPLETIONS", policy=None):
    vault = SecretVault()
    draft = ConnectionDraft(
        id="one", name="judge", base_url=url, model="m", protocol=protocol,
        api_key=vault.seal(KEY, "one"), credential_ref=None,
    )  # fmt: skip
    return open_model(draft, vault, policy or AddressPolicy.parse("127.0.0.1")).judge


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def send_for_ever(piece, head=HEAD + b"\r\n", pause=0.0):
    def answer(connection):
        connection.sendall(head)
        while True:
            connection.sendall(piece)
            time.sleep(pause)

    return answer


@cache
def bomb():
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    return b"".join([*(packer.compress(b" " * 2**20) for _ in range(256)), packer.flush()])


def send_bomb(connection):
    head = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb())
    connection.sendall(HEAD + head + bomb())


def send_200_mb(connection):
    size = 200 * 2**20
    connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % size)
    for _ in range(200):
        connection.sendall(b" " * 2**20)


HOSTILE = {
    "200 MB": (send_200_mb, "TOO_LARGE"),
    "endless body": (send_for_ever(b" " * 2**16), "TOO_LARGE"),
    "gzip bomb": (send_bomb, "TOO_LARGE"),
    "a byte at a time": (send_for_ever(b" ", HEAD + b"Content-Length: 1000\r\n\r\n", 0.02), "TIMEOUT"),
    "nothing": (lambda connection: connection.recv(1), "TIMEOUT"),
    "cut": (lambda connection: connection.sendall(HEAD + b"Content-Length: 9\r\n\r\n{"), "UNREACHABLE"),
    "no HTTP": (lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9\r\n"), "NOT_JSON"),
    "endless header": (send_for_ever(b"x" * 2**16, b"HTTP/1.1 200 OK\r\nX-Long: "), "NOT_JSON"),
    "endless headers": (send_for_ever(b"X-More: 1\r\n" * 2**12, HEAD), None),
    "header a byte at a time": (send_for_ever(b"x", HEAD + b"X-Slow: ", 0.02), "TIMEOUT"),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_answer_is_bounded_in_time_and_memory(monkeypatch, name):
    monkeypatch.setattr(model_check, "_MAY_BE_PROTOCOL", ())  # the receiver answers once
    bomb()
    answer, problem = HOSTILE[name]
    with raw_receiver(answer) as url:
        judge = judge_at(url.removesuffix("/hook"))
        tracemalloc.start()
        start = time.monotonic()
        check = await check_model(judge, seconds=1.0 if problem in ("TIMEOUT", None) else 60.0)
        seconds, (_, most) = time.monotonic() - start, tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert check.problem in ({problem} if problem else {"NOT_JSON", "TIMEOUT", "TOO_LARGE"}), check
    assert check.message
    assert seconds < 60
    assert most < 40 * 2**20


@pytest.mark.parametrize("name", HOSTILE)
async def test_the_judge_of_a_job_bounds_it_too(name):
    bomb()
    answer, _ = HOSTILE[name]
    with raw_receiver(answer) as url:
        judge = replace(judge_at(url.removesuffix("/hook")), timeout=1.0, attempts=1)
        tracemalloc.start()
        start = time.monotonic()
        with pytest.raises(JudgeError) as error:
            await judge.complete("question")
        seconds, (_, most) = time.monotonic() - start, tracemalloc.get_traced_memory()
        tracemalloc.stop()
        await judge.aclose()

    assert KEY not in str(error.value)
    assert seconds < 60
    assert most < 60 * 2**20


@contextmanager
def environment(**values):
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


async def test_a_judge_of_a_connection_has_its_own_limits_and_no_key_of_the_environment(model):
    with environment(OPENAI_API_KEY="sk-of-the-server", OPENAI_BASE_URL=f"{model.url}/v1"):
        one = judge_at(f"{model.url}/v1")
        reply = await one.complete("question")
    assert reply.text == "ok"
    assert model.received[-1].headers["Authorization"] == f"Bearer {KEY}"
    other = ConnectionDraft(
        id="two", name="judge", base_url=f"{model.url}/v1", model="m", protocol="CHAT_COMPLETIONS",
        api_key=f"plain:{KEY}", credential_ref=None, requests_per_minute=1, max_concurrency=1,
    )  # fmt: skip
    two = open_model(other, SecretVault(), AddressPolicy.parse("127.0.0.1")).judge
    await two.complete("question")
    throttles = [client._find_endpoint(judge._target).throttle for judge in (one, two)]
    assert [throttle.ceiling for throttle in throttles] == [64, 1]
    await two.aclose()

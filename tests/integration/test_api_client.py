"""The client for HTTP APIs against a server that refuses, fails, cuts connections and answers too much."""

import asyncio
import gzip
import json
import socket

import pytest
from aiohttp import web

from dokimos._http.address_policy import AddressPolicy, use_address_policy
from dokimos._http.api_client import ApiClient, encode_segment
from dokimos._http.credentials import Secret
from dokimos.errors import (
    AddressRefusedError,
    ConfigurationError,
    JudgeError,
    JudgeUnavailableError,
    ServerRefusedError,
    ServerReplyError,
    ServerUnavailableError,
)

KEY = "dk-0123456789abcdef0123456789"


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in ("DOKIMOS_OFFLINE", "HTTP_PROXY", "http_proxy", "DOKIMOS_MAX_REPLY_MB"):
        monkeypatch.delenv(name, raising=False)


def echo(request):
    return {
        "method": request.method,
        "path": request.raw_path,
        "query": request.query,
        "body": request.body.decode(),
        "type": request.headers.get("Content-Type"),
        "authorization": request.headers.get("Authorization"),
    }


def script(*answers):
    """Give these answers in turn, the last one for ever."""
    left = list(answers)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


def refusal(status, body=None, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.json_response(
        body or {"error": "Nope", "message": "not this way"}, status=status, headers=named
    )


class Sleeps(list):
    async def __call__(self, seconds):
        self.append(seconds)


def client_of(server, **settings):
    settings.setdefault("sleep", Sleeps())
    return ApiClient(base_url=server.url, **settings)


def call(server, method="GET", path="/x", *, settings=None, **options):
    async def main():
        async with client_of(server, **(settings or {})) as api:
            return await api.request(method, path, **options)

    return asyncio.run(main())


# What is sent


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_every_method_is_sent_with_json_query_and_headers(serve, method):
    settings = {"headers": {"Authorization": Secret(f"Bearer {KEY}")}}
    with serve(echo) as server:
        seen = call(
            server,
            method,
            "/v1/ä b",
            json={"a": "é\ud800"},
            query={"q": "1 & 2", "no": None, "b": True},
            settings=settings,
        ).json()

    assert seen["method"] == method
    assert seen["query"] == {"q": "1 & 2", "b": "true"}
    assert json.loads(seen["body"]) == {"a": "é\ud800"}
    assert seen["type"] == "application/json"
    assert seen["authorization"] == f"Bearer {KEY}"


def test_bytes_are_sent_as_they_are(serve):
    with serve(echo) as server:
        seen = call(server, "PUT", content=b"a,b\n1,2\n", headers={"Content-Type": "text/csv"}).json()

    assert (seen["body"], seen["type"]) == ("a,b\n1,2\n", "text/csv")


def test_a_header_of_a_request_replaces_one_of_the_client_in_any_case(serve):
    settings = {"headers": {"Authorization": "Bearer one", "X-Team": "a"}}
    given = {"authorization": "Bearer two", "CONTENT-TYPE": "application/x-ndjson", "accept": "text/csv"}
    with serve(echo) as server:
        seen = call(server, "POST", json=[], headers=given, settings=settings).json()

    assert (seen["authorization"], seen["type"]) == ("Bearer two", "application/x-ndjson")
    (request,) = server.received
    assert request.headers["accept"] == "text/csv"
    assert request.headers["x-team"] == "a"


def test_a_large_body_arrives_whole(serve):
    with serve(lambda request: {"size": len(request.body)}) as server:
        assert call(server, "POST", content=b"x" * 3_000_000).json() == {"size": 3_000_000}


@pytest.mark.parametrize("name", ["a/b", "a.b", "50%", "ü n", "a+b?c#d", "%2e%2e", "…"])
def test_any_name_can_be_a_segment_of_a_path(serve, name):
    from urllib.parse import unquote

    with serve(echo) as server:
        path = call(server, "GET", f"/datasets/{encode_segment(name)}/items").json()["path"]

    before, segment, after = path.removeprefix("/").split("/")
    assert (before, unquote(segment), after) == ("datasets", name, "items")


@pytest.mark.parametrize("name", ["", ".", "..", "a\ud800"])
def test_some_names_cannot_be_a_segment(name):
    with pytest.raises(ConfigurationError):
        encode_segment(name)


def test_a_reply_without_content_is_none(serve):
    with serve(lambda request: web.Response(status=204)) as server:
        reply = call(server, "DELETE")

    assert (reply.status, reply.json()) == (204, None)


def test_a_url_that_cannot_be_the_root_of_an_api_is_refused():
    with pytest.raises(ConfigurationError, match="must start with http"):
        ApiClient(base_url="localhost:8080")


@pytest.mark.parametrize("end", ["/services/T0/x", "/services/T0/x/", "/hook?token=t0ken&a=%26b"])
def test_a_whole_url_is_called_as_it_is(serve, end):
    with serve(echo) as server:

        async def main():
            async with ApiClient(base_url=server.url + end) as api:
                return (await api.request("POST", "", json={})).json()

        assert asyncio.run(main())["path"] == end


def test_no_path_is_appended_after_a_query():
    async def main():
        async with ApiClient(base_url="http://localhost:9/x?y=secret") as api:
            await api.request("GET", "/z")

    with pytest.raises(ConfigurationError, match="must end before any '\\?'") as error:
        asyncio.run(main())
    assert "secret" not in str(error.value)


def test_a_request_that_cannot_be_sent_is_an_error_of_the_configuration(serve):
    with serve(echo) as server, pytest.raises(ConfigurationError, match="the request cannot be sent"):
        call(server, headers={"X-Team": "a\r\nX-Other: b"})


# What goes wrong


def test_a_refusal_has_status_words_and_the_json_of_the_answer(serve):
    with (
        serve(lambda request: refusal(404, {"error": "Not Found", "message": "no data set 'x'"})) as server,
        pytest.raises(ServerRefusedError) as error,
    ):
        call(server, "GET", "/datasets/x", query={"secret": "s3cr3t-value"})

    assert error.value.status == 404
    assert error.value.details == {"error": "Not Found", "message": "no data set 'x'"}
    assert str(error.value) == f"GET {server.url}/datasets/x: 404 Not Found: no data set 'x'"
    assert len(server.received) == 1


def test_the_key_is_not_shown_by_an_error_that_repeats_it(serve):
    settings = {"headers": {"Authorization": Secret(f"Bearer {KEY}")}}
    with (
        serve(lambda request: refusal(401, {"error": f"bad key {KEY}"})) as server,
        pytest.raises(ServerRefusedError) as error,
    ):
        call(server, settings=settings)

    assert KEY not in str(error.value)
    assert KEY not in repr(client_of(server, **settings))


def test_the_path_of_a_webhook_is_not_shown(serve):
    with (
        serve(lambda request: refusal(302, Location="http://elsewhere.example/also/secret")) as server,
        pytest.raises(ServerRefusedError) as error,
    ):
        call(server, "POST", "/services/T0/secret", json={}, settings={"hides_paths": True})

    assert "secret" not in str(error.value)
    assert server.url in str(error.value)


def test_a_redirect_is_not_followed(serve):
    with (
        serve(lambda request: refusal(307, Location="/elsewhere?token=t0ken")) as server,
        pytest.raises(
            ServerRefusedError, match=r"redirects are not followed; this one leads to .*/elsewhere$"
        ),
    ):
        call(server)

    assert len(server.received) == 1


@pytest.mark.parametrize("failure", [500, 502, 503, 504, 429, None])
def test_a_request_that_can_be_repeated_is_tried_three_times(serve, failure):
    sleeps = Sleeps()
    answer = (lambda request: None) if failure is None else (lambda request: refusal(failure))
    with serve(answer) as server, pytest.raises(ServerUnavailableError, match=r"tried 3 times") as error:
        call(server, settings={"sleep": sleeps})

    if failure is not None:  # the HTTP library sends once more by itself what a cut connection swallowed
        assert len(server.received) == 3
    assert sleeps == [0.1, 0.2]
    assert not isinstance(error.value, JudgeError)


def test_a_failure_that_passes_is_not_noticed(serve):
    with serve(script(refusal(503), None, {"ok": True})) as server:
        assert call(server).json() == {"ok": True}


def test_the_wait_that_a_server_asks_for_is_kept(serve):
    sleeps = Sleeps()
    with serve(script(refusal(429, Retry_After="7"), {"ok": True})) as server:
        call(server, "POST", json={}, settings={"sleep": sleeps})

    assert sleeps == [7]


def test_a_wait_that_is_too_long_is_not_waited_for(serve):
    with (
        serve(lambda request: refusal(429, Retry_After="3600")) as server,
        pytest.raises(ServerUnavailableError, match="it asks to wait 3600 s"),
    ):
        call(server)

    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("answer", "options", "tries"),
    [
        (lambda request: refusal(500), {}, 1),
        (lambda request: None, {}, 1),
        (lambda request: refusal(503), {}, 3),
        (lambda request: refusal(500), {"headers": {"idempotency-KEY": "1"}}, 3),
        (lambda request: None, {"headers": {"Idempotency-Key": "1"}}, 3),
        (lambda request: refusal(500), {"repeatable": True}, 3),
        (lambda request: refusal(501), {"repeatable": True}, 1),
        (lambda request: refusal(409), {"repeatable": True}, 1),
    ],
)
def test_a_post_is_repeated_only_where_nothing_can_be_done_twice(serve, answer, options, tries):
    with serve(answer) as server, pytest.raises((ServerUnavailableError, ServerRefusedError)):
        call(server, "POST", json={}, **options)

    assert len(server.received) == tries


def test_a_server_that_is_not_there_is_unavailable():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"

    async def main():
        async with ApiClient(base_url=url, sleep=Sleeps()) as api:
            await api.request("POST", "/x", json={})

    with pytest.raises(ServerUnavailableError, match=r"POST .*/x: cannot connect to .* \(tried 3 times\)"):
        asyncio.run(main())


def test_no_server_is_called_when_offline(monkeypatch):
    monkeypatch.setenv("DOKIMOS_OFFLINE", "1")

    async def main():
        async with ApiClient(base_url="https://dokimos.example") as api:
            await api.request("GET", "/x")

    with pytest.raises(ServerUnavailableError, match="DOKIMOS_OFFLINE is set"):
        asyncio.run(main())


def test_what_is_not_json_is_an_error_that_quotes_it(serve):
    with (
        serve(lambda request: web.Response(text="<html>proxy</html>")) as server,
        pytest.raises(ServerReplyError, match="is not JSON: an HTML page: proxy"),
    ):
        call(server).json()


@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_a_reply_above_the_limit_is_an_error_that_names_limit_and_url(serve, encoding):
    content = gzip.compress(b"x" * 100_000) if encoding else b"x" * 100_000
    headers = {"Content-Encoding": encoding} if encoding else {}
    with (
        serve(lambda request: web.Response(body=content, headers=headers)) as server,
        pytest.raises(ServerReplyError) as error,
    ):
        call(server, "GET", "/big", query={"k": "v"}, settings={"max_reply_bytes": 9_999})

    assert str(error.value) == (
        f"GET {server.url}/big: the answer is larger than 9,999 bytes, which is the limit"
    )


# Downloads


def download(server, target, **options):
    async def main():
        async with client_of(server) as api:
            return await api.download("/items", target, **options)

    return asyncio.run(main())


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_a_download_is_written_to_a_file(serve, tmp_path, encoding):
    content = bytes(range(256)) * 40_000
    sent = gzip.compress(content) if encoding else content
    headers = {"Content-Encoding": encoding} if encoding else {}
    with serve(lambda request: web.Response(body=sent, headers=headers)) as server:
        reply = download(server, tmp_path / "items.bin")

    assert (tmp_path / "items.bin").read_bytes() == content
    assert reply.content == b""
    assert [path.name for path in tmp_path.iterdir()] == ["items.bin"]


def test_a_download_starts_again_where_it_failed(serve, tmp_path):
    half = web.Response(body=b"y" * 10, headers={"Content-Encoding": "gzip"})  # not gzip at all
    with serve(script(half, None, web.Response(body=b"whole"))) as server:
        download(server, tmp_path / "f")

    assert (tmp_path / "f").read_bytes() == b"whole"


@pytest.mark.parametrize("answer", [lambda request: refusal(404), lambda request: refusal(500)])
def test_a_download_that_fails_leaves_the_file_as_it_was(serve, tmp_path, answer):
    (tmp_path / "f").write_bytes(b"old")
    with serve(answer) as server, pytest.raises((ServerRefusedError, ServerUnavailableError)):
        download(server, tmp_path / "f")

    assert (tmp_path / "f").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_download_above_its_limit_is_ended(serve, tmp_path):
    with (
        serve(lambda request: web.Response(body=b"x" * 5_000_000)) as server,
        pytest.raises(ServerReplyError, match="larger than 1,000,000 bytes"),
    ):
        download(server, tmp_path / "f", most_bytes=1_000_000)

    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_not_taken_for_a_broken_connection(serve):
    class Full:
        def seek(self, place): ...

        def truncate(self): ...

        def write(self, part):
            raise OSError(28, "No space left on device")

    async def main(server):
        async with client_of(server) as api:
            call = api._call("GET", "/items", None, None, None)
            await api._until_answered(call, lambda session: api._fetch(session, call, Full()))

    with (
        serve(lambda request: web.Response(body=b"x" * 1000)) as server,
        pytest.raises(OSError, match="No space left"),
    ):
        asyncio.run(main(server))

    assert len(server.received) == 1


# Where requests may go


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_policy_keeps_requests_from_this_machine_and_names_the_variable(serve, host):
    with serve(echo) as server:
        url = server.url.replace("127.0.0.1", host)

        async def main():
            async with ApiClient(base_url=url, policy=AddressPolicy()) as api:
                await api.request("GET", "/x")

        with pytest.raises(AddressRefusedError, match=f"DOKIMOS_ALLOWED_PRIVATE_HOSTS={host}:"):
            asyncio.run(main())
    assert not server.received


@pytest.mark.parametrize("allowed", ["*", "localhost", "127.0.0.0/8, ::1", "{place}"])
def test_what_a_policy_allows_is_called(serve, allowed):
    with serve(echo) as server:
        place = server.url.removeprefix("http://").replace("127.0.0.1", "localhost")
        policy = AddressPolicy.parse(allowed.format(place=place))
        if "127.0.0.0" in allowed:
            place = place.replace("localhost", "127.0.0.1")

        async def main():
            async with ApiClient(base_url=f"http://{place}", policy=policy) as api:
                return await api.request("GET", "/x")

        assert asyncio.run(main()).status == 200


def test_a_name_that_resolves_to_this_machine_is_refused_when_it_is_resolved(serve, monkeypatch):
    def resolve(host, port, *args, **kwargs):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)

    async def main(port):
        async with ApiClient(base_url=f"http://hook.example:{port}", policy=AddressPolicy()) as api:
            await api.request("POST", "/x", json={})

    with serve(echo) as server:
        port = server.url.rpartition(":")[2]
        with pytest.raises(AddressRefusedError, match=r"'hook.example', which has a loopback address"):
            asyncio.run(main(port))
    assert not server.received


def test_a_policy_uses_no_proxy_which_would_resolve_the_host_by_itself(serve, monkeypatch):
    with serve(echo) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)

        async def main():
            async with ApiClient(base_url="http://127.0.0.1:9", policy=AddressPolicy()) as api:
                await api.request("GET", "/x")

        with pytest.raises(AddressRefusedError):
            asyncio.run(main())
    assert not proxy.received


def test_judges_of_a_context_are_held_to_its_policy(serve):
    from dokimos import judge

    with serve(echo) as server:
        lm = judge("openai-chat:tiny", base_url=f"{server.url}/v1", api_key=KEY)
        refused = pytest.raises(JudgeUnavailableError, match="DOKIMOS_ALLOWED_PRIVATE_HOSTS")
        with use_address_policy(AddressPolicy()), refused:
            asyncio.run(lm.complete("Is it?"))
    assert not server.received

"""HTTP providers of promptfoo: endpoints of a suite, and programs that send their requests."""

import json
import shutil
import textwrap

import pytest
from aiohttp import web
from tests.servers.http_api import HttpApi
from tests.servers.scripted import ScriptedServer

from dokimos._cli.main import run_command
from dokimos.errors import AgentError, ConfigurationError
from dokimos.importers import http_provider
from dokimos.importers._promptfoo.conversion import convert
from dokimos.suites import load_suite

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def api():
    with HttpApi(lambda request: {"choices": [{"text": request.body.decode() or request.raw_path}]}) as api:
        yield api


def converted(place, provider):
    config = {"prompts": ["say {{ q }}"], "providers": [provider], "tests": [{"vars": {"q": "hi"}}]}
    (place / "promptfooconfig.yaml").write_text(json.dumps(config))
    return convert(place / "promptfooconfig.yaml")


def agent(result):
    (suite,) = result.suites.values()
    return suite["agent"]


def test_a_converted_provider_sends_its_own_body(place, api, monkeypatch):
    monkeypatch.setenv("TOKEN", "secret-of-the-environment")
    (place / "promptfooconfig.yaml").write_text(textwrap.dedent("""
        prompts: ['say "{{ word }}"']
        providers:
          - id: https
            config:
              url: "URL/ask"
              method: post
              headers: {Authorization: "Bearer {{env.TOKEN}}", X-Kind: test}
              queryParams: {version: 2, kind: "{{ prompt | length }}"}
              body: {question: "{{prompt}}", options: {deep: ["{{ prompt | upper }}", 1, null]}}
              transformResponse: json.choices[0].text
        tests: [{vars: {word: "hé"}, assert: [{type: contains, value: "deep"}]}]
    """.replace("URL", api.url)))  # fmt: skip

    assert run_command(["import", "promptfoo", "promptfooconfig.yaml", "--strict"]) == 0
    (item,) = load_suite("agent.yaml").experiment().run(journal=False, progress=False).item_results

    (request,) = api.received
    assert (request.method, request.query) == ("POST", {"version": "2", "kind": "8"})
    assert json.loads(request.body) == {
        "question": 'say "hé"',
        "options": {"deep": ['SAY "HÉ"', 1, None]},
    }
    assert request.headers["Authorization"] == "Bearer secret-of-the-environment"
    assert request.headers["Content-Type"] == "application/json"
    assert item.success is True
    assert "secret-of" not in (place / "agent_programs.py").read_text()


def test_an_endpoint_without_a_body_of_its_own_stays_one_of_the_suite(place):
    result = converted(place, {"id": "http://localhost:1/x", "config": {"transformResponse": "json.a[0]"}})
    assert agent(result) == {"url": "http://localhost:1/x", "output_path": "a[0]"}
    assert result.module == ""


@pytest.mark.parametrize("header", ["Authorization", "x-api-key", "Cookie", "X-Auth-Token"])
@pytest.mark.parametrize("body", [None, {"q": "{{prompt}}"}])
def test_a_key_that_stands_in_the_file_is_not_copied(place, header, body):
    config = {"headers": {header: "sk-in-the-clear", "Accept": "*/*"}, **({"body": body} if body else {})}
    result = converted(place, {"id": "http://localhost:1/x", "config": config})
    assert "sk-in-the-clear" not in result.module + str(result.suites)
    assert "*/*" in result.module + str(result.suites)
    assert [text for text in result.notes.lost if header in text]


@pytest.mark.parametrize("body", [{"a": ["{{ user }}"]}, "{{ user.name }}", {"a": "{% include 'x' %}"}])
def test_a_request_that_needs_more_than_the_prompt_is_not_converted(place, body):
    result = converted(place, {"id": "http://localhost:1/x", "config": {"body": body}})
    assert agent(result) == {"url": "http://localhost:8000/chat"}
    assert len(result.notes.lost) == 1


def test_settings_that_have_no_counterpart_are_listed(place):
    result = converted(place, {
        "id": "http://localhost:1/x",
        "config": {"body": "{{prompt}}", "validateStatus": "status < 500", "maxRetries": 3},
    })  # fmt: skip
    assert list(result.notes.lost) == ["an http provider: its settings maxRetries, validateStatus"]


def test_a_body_of_the_wrong_shape_is_an_error_that_names_it(place):
    with pytest.raises(ConfigurationError, match="body of the provider http://localhost:1/x must be a map"):
        converted(place, {"id": "http://localhost:1/x", "config": {"body": 3}})


async def test_a_get_request_has_no_body(api):
    assert await http_provider(f"{api.url}/a", query={"q": "{{prompt}}"}, output_path="choices[0].text")(
        "x y"
    ) == ("/a?q=x+y")
    (request,) = api.received
    assert (request.method, request.body) == ("GET", b"")


@pytest.mark.parametrize(
    ("body", "kind"),
    [("{{ prompt }}", "text/plain; charset=utf-8"), ('{"q": {{ prompt | dump }}}', "application/json")],
)
async def test_a_body_of_text_is_sent_as_it_stands(api, body, kind):
    await http_provider(api.url, body=body)("a\nb")
    (request,) = api.received
    assert request.body.decode() in ("a\nb", '{"q": "a\\nb"}')
    assert request.headers["Content-Type"] == kind


@needs_node
@pytest.mark.parametrize(
    ("transform", "reply"),
    [
        ("json.choices[0].text.toUpperCase()", "HI"),
        ("(json, text) => json.choices.length + text.length", 30),
        ("context.response.status", 200),
        (
            "({output: json.choices[0].text, tokenUsage: {total: 3}})",
            {"output": "hi", "tokenUsage": {"total": 3}},
        ),
    ],
)
async def test_a_program_makes_the_reply(api, transform, reply):
    assert await http_provider(api.url, body="{{prompt}}", transform=transform)("hi") == reply


@needs_node
async def test_a_program_that_fails_is_an_error_of_the_agent(api):
    with pytest.raises(AgentError, match="TypeError"):
        await http_provider(api.url, body="{{prompt}}", transform="json.nothing.at")("hi")


async def test_an_answer_that_is_no_json_is_the_reply():
    with HttpApi(lambda request: web.Response(text="plain é", charset="latin-1")) as api:
        assert await http_provider(api.url, body="{{prompt}}")("hi") == "plain é"
        with pytest.raises(AgentError):
            await http_provider(api.url, body="{{prompt}}", output_path="a")("hi")


async def test_a_refusal_names_the_status_and_no_key():
    with HttpApi(lambda request: web.Response(status=403, text="no: Bearer very-secret-key-1234")) as api:
        ask = http_provider(f"{api.url}/x?key=abc", headers={"Authorization": "Bearer very-secret-key-1234"})
        with pytest.raises(AgentError, match="status 403") as failure:
            await ask("hi")
    assert "very-secret" not in str(failure.value)


async def test_a_redirect_takes_no_headers_elsewhere(api):
    moved = web.Response(status=302, headers={"Location": api.url})
    with HttpApi(lambda request: moved) as old, pytest.raises(AgentError, match="status 302"):
        await http_provider(old.url, headers={"X-Api-Key": "secret-key-1234"})("hi")
    assert api.received == []


async def test_an_answer_that_is_too_large_names_the_limit(monkeypatch):
    monkeypatch.setenv("DOKIMOS_MAX_REPLY_MB", "0.001")
    with (
        HttpApi(lambda request: "x" * 5000) as api,
        pytest.raises(AgentError, match="DOKIMOS_MAX_REPLY_MB"),
    ):
        await http_provider(api.url)("hi")


async def test_an_endpoint_that_is_away_is_an_error_of_the_agent():
    with pytest.raises(AgentError, match="cannot be asked"):
        await http_provider("http://127.0.0.1:9/x", body="{{prompt}}")("hi")


async def test_offline_nothing_is_sent(monkeypatch):
    monkeypatch.setenv("DOKIMOS_OFFLINE", "1")
    with pytest.raises(AgentError, match="DOKIMOS_OFFLINE"):
        await http_provider("http://192.0.2.1/x", body="{{prompt}}")("hi")


def test_a_template_that_cannot_be_filled_in_is_told_before_the_run():
    with pytest.raises(ConfigurationError, match="cannot be filled in"):
        http_provider("http://localhost:1", body={"a": "{% include 'x' %}"})


@needs_node
def test_programs_see_what_a_structured_reply_says(place):
    schema = {"type": "object", "properties": {"answer": {"type": "integer"}}}
    assertions = [
        {"type": "javascript", "value": "output.answer === 42"},
        {"type": "python", "value": "output['answer'] == 42"},
        {"type": "is-json"},
    ]
    with ScriptedServer(lambda body: '{"answer": 42}') as server:
        setting = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        provider = {"id": "openai:chat:m", "config": {"apiBaseUrl": server.url, "response_format": setting}}
        config = {
            "prompts": ["{{q}}"],
            "providers": [provider],
            "tests": [{"vars": {"q": "?"}, "assert": assertions}],
        }
        (place / "promptfooconfig.yaml").write_text(json.dumps(config))
        assert run_command(["import", "promptfoo", "promptfooconfig.yaml", "--strict"]) == 0
        (item,) = load_suite("agent.yaml").experiment().run(journal=False, progress=False).item_results
    assert [result.success for result in item.eval_results] == [True, True, True]
    assert "json_schema" in json.dumps(server.received[0].body)

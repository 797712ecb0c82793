"""What the doctor finds on a machine, and what a target needs of it."""

import json
import re
import socket
import sys
from importlib import metadata
from pathlib import Path

import pytest

from dokimos._cli.main import run_command

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MISTRAL_API_KEY", "GEMINI_API_KEY")
URLS = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST", "AZURE_OPENAI_ENDPOINT")

SUITE = """
name: desk
agent: AGENT
evaluations:
  metrics:
    - type: geval
      name: Polite
      criteria: It is polite.
      model: MODEL
test_cases:
  - {input: a, ground_truth: A}
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (*KEYS, *URLS, "DOKIMOS_RUN_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    Path("app.py").write_text("def answer(question):\n    return question\n")
    yield tmp_path
    sys.modules.pop("app", None)


def suite(model="{provider: openai, name: gpt-5-mini}", agent="app:answer"):
    Path("agent.yaml").write_text(SUITE.replace("MODEL", model).replace("AGENT", agent))


def doctor(capsys, *arguments):
    status = run_command(["doctor", "--json", *arguments])
    return status, {(one["group"], one["name"]): one for one in json.loads(capsys.readouterr().out)}


def test_a_machine_without_anything_configured_is_well(capsys):
    status, found = doctor(capsys)
    assert status == 0
    assert found["keys", "OPENAI_API_KEY"]["state"] == "absent"
    assert found["keys", "OPENAI_API_KEY"]["remedy"] == "export OPENAI_API_KEY=..."
    assert found["machine", "runs"]["state"] == "ok"
    assert ("data", "WordNet") in found
    assert not [key for key in found if key[0] == "endpoints"], "nothing is configured, so nobody is asked"


def test_keys_are_never_printed(capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    assert run_command(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "set (openai)" in printed
    assert "secret" not in printed


def test_extras_are_told_apart_by_their_packages(capsys, monkeypatch):
    known = metadata.distribution

    def without(name):
        if name == "nltk":
            raise metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(metadata, "distribution", without)
    _, found = doctor(capsys)
    assert found["extras", "nlp"]["found"] == "without nltk"
    assert found["extras", "nlp"]["remedy"] == 'pip install "dokimos[nlp]"'
    assert found["extras", "all"]["state"] == "absent", "what extras are made of counts, too"


def test_the_table_is_readable_at_60_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert run_command(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) < 60
    assert "Nothing that is needed is missing." in printed
    assert re.search(r"^      -> export OPENAI_API_KEY=\.\.\.$", printed, re.MULTILINE)


def test_a_suite_names_the_key_that_it_lacks(capsys, monkeypatch):
    suite()
    status, found = doctor(capsys, "agent.yaml", "--no-ask")
    assert status == 1
    assert found["keys", "OPENAI_API_KEY"]["is_needed"] is True
    assert found["keys", "ANTHROPIC_API_KEY"]["is_needed"] is False
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    status, _ = doctor(capsys, "agent.yaml", "--no-ask")
    assert status == 0
    Path("agent.yaml").write_text(Path("agent.yaml").read_text().replace("app:answer", "app:nobody"))
    assert run_command(["doctor", "agent.yaml", "--no-ask"]) == 1
    assert "app has no 'nobody'" in " ".join(capsys.readouterr().out.split())


def test_the_judge_of_a_suite_is_asked_what_it_can_do(capsys, server):
    suite(f"{{provider: openai, name: m, endpoint: '{server.url}'}}")
    status, found = doctor(capsys, "agent.yaml")
    (judge,) = [one for key, one in found.items() if key[0] == "endpoints"]
    assert judge["state"] == "ok", judge
    assert "answers; " in judge["found"]
    assert "log probabilities" in judge["found"]
    assert status == 0


def test_an_endpoint_that_nobody_listens_at_is_a_fault(capsys, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    suite(f"{{provider: openai, name: m, endpoint: '{url}'}}", agent=f"{{url: '{url}'}}")
    status, found = doctor(capsys, "agent.yaml")
    assert status == 1
    assert found["endpoints", "agent"]["state"] == "fault"
    assert "cannot be reached" in found["endpoints", "agent"]["found"]
    monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{port}")
    status, found = doctor(capsys)
    assert found["endpoints", "OLLAMA_HOST"]["state"] == "fault"
    assert status == 0, "no target needs it"


def test_a_model_can_be_named(capsys, server):
    status, found = doctor(capsys, "--judge", f"{server.url}#m")
    assert status == 0
    assert any(key[0] == "endpoints" and one["state"] == "ok" for key, one in found.items())


def test_a_target_that_cannot_be_loaded_is_what_is_missing(capsys):
    assert run_command(["doctor", "nothing.yaml"]) == 1
    assert "There is no suite nothing.yaml." in " ".join(capsys.readouterr().out.split())

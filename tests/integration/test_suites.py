"""Whole suites from outside: what is printed, written, sent and exited with."""

import base64
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
import xml.etree.ElementTree as ElementTree
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dokimos._cli.main import run_command

APP = """
import asyncio

def answer(question):
    if "boom" in question:
        raise ConnectionError("the model is down")
    return "60.94" if "price" in question else "4"

async def patient(question):
    await asyncio.sleep(0.01)
    return question
"""

SUITE = """
name: arithmetic
agent: app:answer
evaluations:
  metrics:
    - type: standard
      metric: numeric
test_cases:
  - {name: Exercise price, input: "What was the price?", ground_truth: 60.94, tags: [smoke, money]}
  - {name: sum, input: "2 + 2", ground_truth: "4", tags: [smoke]}
"""


class Endpoint(BaseHTTPRequestHandler):
    """An application that counts the turns of each session."""

    def do_POST(self):
        sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.received.append((sent, self.headers.get("x-key")))
        if "refuse" in sent["input"]:
            self.send_response(400)
            self.end_headers()
            self.wfile.write(b'{"error": {"message": "no such thing"}}')
            return
        content = json.dumps(
            {"output": str(len(sent["messages"])), "tool_calls": [{"name": "count"}]}
        ).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture
def endpoint():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    server.received = []
    server.url = f"http://127.0.0.1:{server.server_port}/chat"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DOKIMOS_RUN_DIR", raising=False)
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def write(text, name="agent.yaml"):
    with open(name, "w", encoding="utf-8") as file:
        file.write(textwrap.dedent(text).lstrip("\n"))


def dokimos(*arguments):
    return run_command(list(arguments))


def test_a_suite_that_passes_exits_with_0_in_the_documented_form(capsys):
    write(SUITE)

    assert dokimos("test") == 0

    printed = capsys.readouterr().out
    assert 'Test: "Exercise price"' in printed
    assert "    ✓ numeric: 1.00 (threshold: —)" in printed
    assert "  Result: PASS" in printed
    assert "2 passed, 0 failed" in printed


def test_a_suite_that_fails_exits_with_1(capsys):
    write(SUITE.replace('"4"', '"5"'))

    assert dokimos("test", "agent.yaml", "-q") == 1
    assert capsys.readouterr().out == "1 passed, 1 failed\n"


def test_a_wrong_suite_exits_with_2_before_anything_is_run(capsys, workplace):
    write(SUITE.replace("metric: numeric", "metric: numerc"))

    assert dokimos("test", "run", "agent.yaml") == 2
    assert "agent.yaml:6:7: evaluations.metrics[0].metric" in capsys.readouterr().err
    assert not (workplace / ".dokimos").exists()


def test_a_missing_suite_exits_with_2(capsys):
    assert dokimos("test", "none.yaml") == 2
    assert "There is no suite none.yaml" in capsys.readouterr().err


def test_a_suite_whose_agent_is_down_exits_with_3(capsys):
    write(SUITE.replace("What was the price?", "boom").replace("2 + 2", "boom"))

    assert dokimos("test") == 3
    assert "Agent error: ConnectionError: the model is down" in capsys.readouterr().out


def test_a_suite_without_cases_exits_with_0(capsys):
    write("name: x\nagent: app:answer\ntest_cases: []\n")

    assert dokimos("test") == 0
    assert capsys.readouterr().out == "No tests to execute.\n"


def test_a_case_that_was_not_evaluated_fails_only_when_strict(capsys):
    write("name: x\nagent: app:answer\ntest_cases: [{input: a}]\n")

    assert dokimos("test", "-q") == 0
    assert dokimos("test", "-q", "--strict") == 1
    assert "0 passed, 0 failed, 1 not evaluated" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "summary"),
    [
        (["-n", "1"], "1 passed"),
        (["--tags", "smoke"], "2 passed"),
        (["--tags", "smoke,money"], "1 passed"),
        (["--case", "s*"], "1 passed"),
        (["--runs", "2", "-j", "2"], "4 passed"),
        (["--parallel-test-cases", "2"], "2 passed"),
    ],
)
def test_cases_can_be_chosen_and_repeated(capsys, options, summary):
    write(SUITE)

    assert dokimos("test", "-q", *options) == 0
    assert capsys.readouterr().out.startswith(summary)


def test_a_filter_that_leaves_nothing_exits_with_2(capsys):
    write(SUITE)

    assert dokimos("test", "--tags", "none") == 2


def test_reports_are_written_by_name_or_by_format(workplace, capsys):
    write(SUITE)

    assert dokimos("test", "-q", "-o", "out/r.junit.xml", "-o", "out/r.json", "-o", "out/r.txt") == 0
    assert dokimos("test", "-q", "-o", "out/r.report", "--format", "markdown") == 0

    assert len(ElementTree.parse(workplace / "out" / "r.junit.xml").findall(".//testcase")) == 2
    assert json.loads((workplace / "out" / "r.json").read_text())["experimentName"] == "arithmetic"
    assert json.loads((workplace / "out" / "r.txt").read_text())["experimentName"] == "arithmetic"
    assert (workplace / "out" / "r.report").read_text().startswith("#")


def test_a_format_needs_a_file(capsys):
    write(SUITE)

    assert dokimos("test", "--format", "json") == 2


def test_the_help_shows_the_subcommands(capsys):
    assert dokimos("test", "--help") == 0

    printed = capsys.readouterr().out
    assert "schema" in printed
    assert "run " in printed


def test_init_writes_a_suite_that_passes(workplace, capsys):
    assert dokimos("init", "--suite", "desk") == 0
    assert dokimos("test", "desk/agent.yaml", "-q") == 0

    assert capsys.readouterr().out.endswith("2 passed, 0 failed\n")
    assert "$schema=./suite.schema.json" in (workplace / "desk" / "agent.yaml").read_text()
    assert (workplace / "desk" / "suite.schema.json").exists()


def test_settings_of_the_suite_can_make_it_quiet(capsys):
    write(SUITE + "execution: {quiet: true}\n")

    assert dokimos("test") == 0
    assert capsys.readouterr().out == "2 passed, 0 failed\n"


def test_what_is_out_of_date_is_told_once_on_standard_error(capsys):
    write(SUITE + "claude: {}\n")

    assert dokimos("test", "-q") == 0
    assert capsys.readouterr().err.count("the block claude is outside evaluation") == 1


def test_the_schema_is_printed(capsys):
    assert dokimos("test", "schema") == 0
    assert "evaluations" in json.loads(capsys.readouterr().out)["properties"]


def test_run_does_the_same_and_a_run_can_be_resumed(capsys):
    write(SUITE)

    assert dokimos("run", "agent.yaml", "-q") == 0
    assert capsys.readouterr().out == "2 passed, 0 failed\n"
    assert dokimos("resume", "latest", "-q") == 0
    assert capsys.readouterr().out == "2 passed, 0 failed\n"


def test_a_name_in_any_script_is_kept(capsys):
    write(SUITE.replace("arithmetic", "算術").replace("Exercise price", "価格"))

    assert dokimos("test") == 0
    capsys.readouterr()
    assert dokimos("show", "latest") == 0
    assert "算術" in capsys.readouterr().out


def test_a_level_can_be_asked_for(capsys):
    write(SUITE.replace('"4"', '"5"'))

    assert dokimos("test", "-q", "--fail-under", "0.5") == 0
    assert dokimos("test", "-q", "--fail-under", "numeric=0.9") == 1


def test_an_endpoint_gets_the_conversation_and_its_session(endpoint, capsys):
    write(
        f"""
        name: remote
        agent: {{url: "{endpoint.url}", headers: {{x-key: "very-secret-key"}}}}
        evaluations: {{metrics: [{{type: standard, metric: numeric}}]}}
        test_cases:
          - name: talk
            turns:
              - {{input: a, ground_truth: 1, expected_tools: [count]}}
              - {{input: b, ground_truth: 5}}
        """
    )

    assert dokimos("test") == 0, capsys.readouterr().out
    (first, key), (second, _) = endpoint.received
    assert key == "very-secret-key"
    assert first["session_id"] == second["session_id"]
    roles = [message["role"] for message in second["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


def test_secrets_are_never_written(endpoint, workplace, capsys):
    write(
        f"""
        name: remote
        agent: {{url: "{endpoint.url}", headers: {{x-key: "very-secret-key"}}}}
        model: {{provider: openai, name: m, api_key: sk-very-secret-model-key}}
        test_cases: [{{input: a}}, {{input: refuse}}]
        """
    )

    dokimos("test", "-o", "out.json", "-v")

    printed = capsys.readouterr()
    kept = [
        path.read_bytes() for path in workplace.rglob("*") if path.is_file() and path.name != "agent.yaml"
    ]
    assert any(b"no such thing" in content for content in kept)
    assert not any(b"very-secret" in content for content in kept)
    assert "very-secret" not in printed.out + printed.err


def test_an_endpoint_that_is_not_there_breaks_the_run(capsys):
    write("name: x\nagent: http://127.0.0.1:9/chat\ntest_cases: [{input: a}]\n")

    assert dokimos("test") == 3
    assert "the agent at http://127.0.0.1:9/chat: cannot connect" in capsys.readouterr().out


def test_a_model_judges(server, capsys):
    server.answer = '{"score": 8, "reason": "It is polite."}'
    write(
        f"""
        name: judged
        agent: app:answer
        model: {{provider: openai, name: m, base_url: "{server.url}/v1"}}
        evaluations:
          metrics:
            - {{type: geval, name: Polite, criteria: Polite., evaluation_steps: [Look.], threshold: 0.8}}
            - {{type: geval, name: Informs, criteria: It is polite., evaluation_steps: [Look.]}}
        test_cases: [{{input: a}}]
        """
    )

    assert dokimos("test") == 0, capsys.readouterr()
    printed = capsys.readouterr().out
    assert "✓ Polite: 0.80 (threshold: 0.8)" in printed
    assert "· Informs: 0.80 (threshold: —)" in printed


def test_a_recorded_judge_is_not_asked_again(server, capsys):
    server.answer = '{"score": 8, "reason": "It is polite."}'
    suite = f"""
        name: judged
        agent: app:answer
        model: {{provider: openai, name: m, base_url: "{server.url}/v1"}}
        evaluations:
          metrics:
            - {{type: geval, name: Polite, criteria: Polite., evaluation_steps: [Look.], threshold: 0.8}}
        test_cases: [{{input: a}}]
        """
    write(suite)
    assert dokimos("test", "-q", "--record", "judge.jsonl") == 0
    asked = len(server.received)

    assert dokimos("test", "-q", "--replay", "judge.jsonl") == 0
    assert len(server.received) == asked


def test_the_key_of_a_judge_has_to_be_there_before_anything_is_run(capsys, monkeypatch, workplace):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    metric = "{type: geval, name: Good, criteria: Good.}"
    write(
        "name: x\nagent: app:answer\nmodel: {provider: anthropic, name: m}\n"
        f"evaluations: {{metrics: [{metric}]}}\ntest_cases: [{{input: a}}]\n"
    )

    assert dokimos("test") == 2
    assert "anthropic m needs a key: set ANTHROPIC_API_KEY" in capsys.readouterr().err
    assert not (workplace / ".dokimos").exists()


@pytest.mark.slow
def test_a_thousand_cases_run_at_once(capsys):
    cases = "\n".join(json.dumps({"input": f"q{n}", "ground_truth": f"q{n}"}) for n in range(1000))
    write(cases, "cases.jsonl")
    write(
        "name: many\nagent: app:patient\nevaluations: {metrics: [{metric: equality}]}\n"
        "test_cases_file: cases.jsonl\n"
    )

    assert dokimos("test", "-q", "-j", "100") == 0
    assert capsys.readouterr().out == "1000 passed, 0 failed\n"


def test_a_deterministic_suite_runs_in_a_process_of_its_own(workplace):
    write(SUITE)
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    before = os.times().children_user

    done = subprocess.run(
        [sys.executable, "-m", "dokimos", "test", "agent.yaml"],
        capture_output=True, text=True, encoding="utf-8", env=environment, check=False, timeout=60,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert "2 passed, 0 failed" in done.stdout
    assert (
        os.times().children_user - before < 2.0
    )  # seconds of CPU, without compiled files, on a busy machine


def test_the_example_passes(capsys):
    example = Path(__file__).parents[2] / "examples" / "suite" / "agent.yaml"

    assert dokimos("test", str(example)) == 0, capsys.readouterr().out
    printed = capsys.readouterr().out
    assert "3 passed, 0 failed" in printed
    assert "✓ Turn Program: 1.00" in printed


MANY = """
name: many
agent: app:patient
evaluations: {metrics: [{type: standard, metric: equality}]}
test_cases:
  - {name: one, input: a, ground_truth: a}
  - {name: two, input: b, ground_truth: c}
  - {name: three, input: d, ground_truth: e}
  - {name: four, input: f, ground_truth: f}
"""


def test_fail_fast_stops_at_the_first_failure_and_the_run_goes_on_later(capsys):
    write(MANY)

    assert dokimos("test", "--fail-fast") == 1
    told = capsys.readouterr()
    assert "1 passed, 1 failed, 2 not run, stopped" in told.out
    assert "'two'. 2 items were not run: 'three', 'four'. To continue: dokimos resume" in told.err
    assert 'Test: "three"' not in told.out
    assert '"three" not run' not in told.out

    assert dokimos("test", "--resume", "latest", "--fail-fast", "-v") == 1
    told = capsys.readouterr()
    assert "1 passed, 2 failed, 1 not run, stopped" in told.out
    assert '"four" not run' in told.out

    assert dokimos("resume", "latest") == 1
    assert "2 passed, 2 failed\n" in capsys.readouterr().out


def test_fail_fast_at_the_last_case_is_no_stop(capsys):
    write(
        MANY.replace("ground_truth: c", "ground_truth: b").replace(
            "input: f, ground_truth: f", "input: f, ground_truth: g"
        )
    )

    assert dokimos("test", "--fail-fast", "-j", "4") == 1

    told = capsys.readouterr()
    assert "2 passed, 2 failed\n" in told.out
    assert "Stopped" not in told.err


def test_fail_fast_counts_an_agent_that_raises_as_a_failure(capsys):
    write(SUITE.replace("What was the price?", "boom"))

    assert dokimos("test", "--fail-fast") == 1

    assert "0 passed, 0 failed, 1 errored, 1 not run, stopped" in capsys.readouterr().out


def test_a_suite_whose_names_are_not_latin_is_run_stored_and_shown(capsys):
    write(
        SUITE.replace("name: arithmetic", "name: 算術エージェント").replace("Exercise price", "行使価格 №1")
    )

    assert dokimos("test") == 0
    assert 'Test: "行使価格 №1"' in capsys.readouterr().out
    assert dokimos("list") == 0
    assert "算術エージェント" in capsys.readouterr().out


def test_the_stored_runs_are_viewed_as_a_page_without_secrets(workplace, capsys, monkeypatch):
    monkeypatch.setenv("KEY", "sk-very-secret")
    write(SUITE + "model: {provider: openai, name: m, api_key: '${KEY}'}\n")
    write(SUITE.replace("name: arithmetic", "name: other"), "other.yaml")
    assert dokimos("test") == 0
    assert dokimos("test", "other.yaml") == 0

    assert dokimos("test", "view", "--static", "--no-browser") == 0
    assert dokimos("test", "view", "other.yaml", "-o", "out/runs.html", "--no-browser") == 0

    assert "wrote out/runs.html" in capsys.readouterr().out
    every = (workplace / ".dokimos" / "dashboard.html").read_text()
    assert '"name":"arithmetic"' in every
    assert '"name":"arithmetic"' not in (workplace / "out" / "runs.html").read_text()
    kept = [path.read_bytes() for path in workplace.rglob("*") if path.is_file() and path.suffix != ".yaml"]
    assert not any(b"sk-very-secret" in content for content in kept)
    assert b"sk-very-secret" not in b"".join(unpacked(every))


def unpacked(page):
    """Yield what is packed into a page."""
    for packed in re.findall(r'<script type="text/plain" id="[^"]+">([^<]*)<', page):
        yield zlib.decompress(base64.b64decode(packed))


def test_a_page_without_runs_says_how_to_get_one(workplace):
    assert dokimos("test", "view", "--static", "--no-browser") == 0

    assert "No runs yet" in (workplace / ".dokimos" / "dashboard.html").read_text()


def test_the_help_of_test_shows_every_subcommand(capsys):
    assert dokimos("test", "--help") == 0

    told = capsys.readouterr().out
    for name in ("run", "view", "optimize", "schema"):
        assert f"  {name} " in told


def test_a_suite_is_validated_without_being_run(capsys):
    write(MANY + "deployment: {runtime: docker}\n")

    assert dokimos("validate", "agent.yaml") == 0

    printed = capsys.readouterr()
    assert printed.out == "many: 4 cases, 4 turns, of app:patient\n"
    assert "the block deployment is outside evaluation" in printed.err


def test_what_is_wrong_with_a_suite_is_told_when_it_is_validated(capsys):
    write(MANY.replace("input: a", "inptu: a").replace("app:patient", "app:patiend"))

    assert dokimos("validate", "agent.yaml") == 2

    told = capsys.readouterr().err
    assert "test_cases[0].inptu: there is no key 'inptu'. Did you mean 'input'?" in told
    assert "agent: app has no 'patiend'. Did you mean 'patient'?" in told


TRAPS = """
with open("ran.txt", "a") as ran:
    ran.write(__name__ + " ")
import sys

if sys.version_info > (3, 0):
    def patient(text):
        return text

first, (second, *rest) = 1, (2, 3)

class Agent:
    def __call__(self, text):
        return text
"""


def traps(folder):
    """Write modules that tell when they run, and suites that name them in every place where one can."""
    package = folder / "pack"
    package.mkdir()
    for path in (folder / "trap.py", package / "__init__.py", package / "inner.py"):
        path.write_text(TRAPS)
    metrics = """
    - {type: code, grader: "trap:patient"}
    - {type: code, grader: "pack.inner:patient"}
    - {type: evaluator, name: function, params: {function: "trap:patient"}}
    - {type: standard, metric: embedding_similarity, embedder: "trap.py:patient"}
"""
    write(f"name: own\nagent: {{callable: 'trap:Agent', params: {{k: 1}}}}\nevaluations:\n  metrics:{metrics}"
          "test_cases: [{input: a, ground_truth: b}]\n")  # fmt: skip
    (folder / "declared.yaml").write_text(
        "name: declared\nmodel: {provider: ollama, name: m}\ninstructions: {inline: Help.}\n"
        "tools:\n  - {name: look, type: function, file: trap.py, function: patient}\n"
        "  - {name: other, type: function, function: 'pack.inner:Agent.__call__'}\n"
        "test_cases: [{input: a}]\n"
    )


def test_validating_runs_no_code_of_a_suite_unless_asked_to(workplace, monkeypatch, capsys):
    traps(workplace)
    monkeypatch.syspath_prepend(str(workplace))

    assert dokimos("validate", "agent.yaml") == 0
    assert dokimos("validate", "declared.yaml") == 0
    assert not (workplace / "ran.txt").exists()
    assert "own: 1 case" in capsys.readouterr().out

    dokimos("validate", "agent.yaml", "--import")
    assert "trap" in (workplace / "ran.txt").read_text()


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("trap:patiend", "trap has no 'patiend'. Did you mean 'patient'?"),
        ("trap.py:secnd", "trap has no 'secnd'. Did you mean 'second'?"),
        ("pack.outer:patient", "No module named 'pack.outer'"),
        ("nowhere:patient", "No module named 'nowhere'"),
        ("nowhere.py:patient", "there is no file"),
        ("broken:patient", "SyntaxError"),
    ],
)
def test_what_is_not_there_is_named_without_running_anything(workplace, capsys, agent, message):
    traps(workplace)
    (workplace / "broken.py").write_text("def patient(:\n")
    write(f"name: own\nagent: {agent}\ntest_cases: [{{input: a}}]\n")

    assert dokimos("validate", "agent.yaml") == 2
    assert message in capsys.readouterr().err
    assert not (workplace / "ran.txt").exists()


def test_a_declared_agent_is_validated_without_its_extra(workplace, monkeypatch):
    traps(workplace)
    monkeypatch.setattr("dokimos.suites._agent.requirements.find_spec", lambda name: None)

    assert dokimos("validate", "declared.yaml") == 0
    assert dokimos("validate", "declared.yaml", "--import") != 0


def test_importing_is_for_suites(workplace, capsys):
    assert dokimos("validate", "data.jsonl", "--import") == 2
    assert "--import is for suites" in capsys.readouterr().err


def test_what_an_application_leaves_open_is_written_out_at_the_end(workplace):
    (workplace / "log.py").write_text(
        "file = open('replies.txt', 'w')\ndef answer(text):\n    file.write(text)\n    return text\n"
    )
    write("name: open\nagent: log:answer\ntest_cases: [{input: hello}]\n")

    subprocess.run([sys.executable, "-m", "dokimos", "test", "-q"], check=True)

    assert (workplace / "replies.txt").read_text() == "hello"

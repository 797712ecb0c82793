"""`dokimos generate` from documents to a data set, over a model server of this machine."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dokimos import Dataset
from dokimos._cli.main import run_command

SECTIONS = 8


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DOKIMOS_CASSETTE", "DOKIMOS_CASSETTE_MODE"):
        monkeypatch.delenv(name, raising=False)
    rules = "".join(f"# Part {n}\n\nRule {n} allows {n} visits.\n\n" for n in range(1, SECTIONS + 1))
    (tmp_path / "rules.md").write_text(rules)
    return tmp_path


def write_cases(prompt):
    if "\nWrite " not in prompt:
        return json.dumps({"reason": "So.", "score": 5})
    line = re.search(r"(?m)^\| (Rule .*)$", prompt)[1]
    name = re.search(r"\n- (\w+):", prompt)[1]
    number = line.split()[1]
    good = {
        "input": f"{'ABCDEFGHI'[int(number)] * 9} visits?",
        "answer": number,
        "quote": line,
        "category": name,
    }
    return json.dumps({"cases": [good, {**good, "input": "Another?", "quote": "Rule 99 allows nothing."}]})


@pytest.fixture
def model(server):
    server.answer = write_cases
    return f"{server.url}/v1#m"


def dokimos(*arguments):
    return run_command(list(arguments))


def read_list():
    return [json.loads(line) for line in Path("review.jsonl").read_text().splitlines()]


def test_from_documents_to_a_data_set(workplace, model, capsys):
    assert dokimos("generate", "rules.md", "--model", model, "-n", "4") == 0
    captured = capsys.readouterr()
    assert "4 cases asked for from 1 source: 2 calls of the model" in captured.err
    assert "2 cases rejected whose passage does not occur in the document" in captured.out
    assert [case["status"] for case in read_list()] == ["pending", "pending"]

    assert dokimos("generate", "accept", "review.jsonl", "-o", "cases.jsonl") == 2
    assert "is accepted" in capsys.readouterr().err
    first, second = (case["id"] for case in read_list())
    assert dokimos("generate", "review", "review.jsonl", "--accept", first, "--reject", second) == 0
    assert "0 pending, 1 accepted, 1 rejected" in capsys.readouterr().out
    assert dokimos("generate", "accept", "review.jsonl", "-o", "cases.jsonl") == 0
    [example] = Dataset.load("cases.jsonl")
    assert example.id == first
    assert example.metadata["generated"]["passage"] in (workplace / "rules.md").read_text()
    assert not list((workplace / ".dokimos/generations").glob("*/*"))


def test_a_model_writes_and_tries_at_its_usual_temperature_and_judges_at_0(server, model):
    assert dokimos("generate", "rules.md", "--model", model, "--weak", model, "-n", "2") == 0
    written = [one.body for one in server.received if "\nWrite " in one.prompt]
    tried = [one.body for one in server.received if one.prompt.startswith("Answer the question")]
    judged = [one.body for one in server.received if one.body not in (*written, *tried)]
    assert (len(written), len(tried), bool(judged)) == (1, 3, True)
    assert not any("temperature" in body for body in (*written, *tried))
    assert {body["temperature"] for body in judged} == {0.0}


def test_a_list_is_continued_and_its_decisions_stay(model, capsys):
    assert dokimos("generate", "rules.md", "--model", model, "-n", "2") == 0
    [case] = read_list()
    assert dokimos("generate", "review", "review.jsonl", "--reject", case["id"]) == 0
    assert dokimos("generate", "rules.md", "--model", model, "-n", str(2 * SECTIONS)) == 0
    cases = read_list()
    assert len(cases) == SECTIONS
    assert (cases[0]["id"], cases[0]["status"]) == (case["id"], "rejected")


def test_replies_are_recorded_and_replayed(server, model):
    command = ("generate", "rules.md", "--model", model, "-n", "4")
    assert dokimos(*command, "--record", "cassette.json") == 0
    recorded, asked = read_list(), len(server.received)
    Path("review.jsonl").unlink()
    assert dokimos(*command, "--replay", "cassette.json") == 0
    assert (read_list(), len(server.received)) == (recorded, asked)


def test_a_dry_run_asks_nothing(server, model, capsys):
    assert dokimos("generate", "rules.md", "--model", model, "--weak", model, "-n", "4", "--dry-run") == 0
    assert "at most 12 of the weak model and as many to judge" in capsys.readouterr().out
    assert server.received == []
    assert not Path("review.jsonl").exists()


def test_the_same_command_asks_only_for_what_the_budget_refused(server, model, capsys):
    command = ("generate", "rules.md", "--model", model, "-n", str(2 * SECTIONS), "-j", "1")
    assert dokimos(*command, "--max-calls", "3") == 3
    assert len(read_list()) == 3
    assert "5 calls not made" in capsys.readouterr().out
    assert dokimos(*command) == 0
    assert len(server.received) == SECTIONS
    assert len(read_list()) == SECTIONS
    assert "nearly" not in capsys.readouterr().out, "cases of the first attempt are no duplicates"


@pytest.mark.parametrize("how", [signal.SIGINT, "kill"])
def test_nothing_is_paid_for_twice_after_an_interruption(server, model, wait_until, how):
    def stall(prompt):
        if len(server.received) >= 5:
            server.latency = 600
        return write_cases(prompt)

    server.answer = stall
    arguments = ["generate", "rules.md", "--model", model, "-n", str(2 * SECTIONS), "-j", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dokimos", *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: len(server.received) >= 5)
    process.kill() if how == "kill" else process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    if how != "kill":
        assert process.returncode == 130
        assert "The same command goes on" in errors
    server.answer, server.latency = write_cases, 0
    assert dokimos(*arguments) == 0
    assert len(read_list()) == SECTIONS
    # The call that was cut off may be made again, and no other.
    assert SECTIONS <= len(server.received) <= SECTIONS + 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.md"], "There is no source"),
        (["rules.md", "--category", "=x"], "must be NAME"),
        (["rules.md", "--as", "schema"], "not a JSON Schema"),
        (["rules.md", "--as", "cases"], "rules.md"),
        (["https://example.com/a.md"], "is a URL"),
        (["rules.md", "-o", "rules.md/x.jsonl"], "Cannot write"),
    ],
)
def test_mistakes_are_explained(arguments, message, capsys):
    assert dokimos("generate", *arguments, "--model", "http://127.0.0.1:9/v1#m") == 2
    assert message in capsys.readouterr().err


def test_a_model_that_fails_leaves_a_list_and_says_so(server, model, capsys):
    server.answer = lambda prompt: "I cannot do that."
    assert dokimos("generate", "rules.md", "--model", model, "-n", "2") == 3
    captured = capsys.readouterr()
    assert "could not be used after one repair" in captured.out
    assert "the same command asks only for that" in captured.err


def test_a_broken_list_is_named_with_its_line(capsys):
    Path("review.jsonl").write_text('{"id": "a"}\n')
    assert dokimos("generate", "review", "review.jsonl") == 2
    assert "review.jsonl:1:" in capsys.readouterr().err
    assert dokimos("generate", "review", "absent.jsonl") == 2
    assert "Cannot read absent.jsonl" in capsys.readouterr().err


def test_a_whole_list_can_be_accepted(model, capsys):
    assert dokimos("generate", "rules.md", "--model", model, "-n", "4") == 0
    assert dokimos("generate", "review", "review.jsonl", "--accept", "all") == 0
    assert dokimos("generate", "accept", "review.jsonl", "-o", "cases.csv") == 0
    assert len(Dataset.load("cases.csv")) == 2
    assert dokimos("generate", "accept", "review.jsonl", "-o", "cases.csv") == 2
    assert "give --force" in capsys.readouterr().err


def test_what_is_decided_while_cases_are_written_stays(server, model):
    assert dokimos("generate", "rules.md", "--model", model, "-n", "2") == 0
    [case] = read_list()

    def decide_meanwhile(prompt):
        decided = {**case, "status": "rejected", "note": "No user asks this."}
        Path("review.jsonl").write_text(json.dumps(decided) + "\n")
        return write_cases(prompt)

    server.answer = decide_meanwhile
    assert dokimos("generate", "rules.md", "--model", model, "-n", "6") == 0
    first, *others = read_list()
    assert (first["status"], first["note"]) == ("rejected", "No user asks this.")
    assert [one["status"] for one in others] == ["pending"] * len(others)
    assert others
    assert not list(Path().glob(".review*"))


def test_replies_are_kept_until_the_list_is_written(server, model, capsys):
    def break_list(prompt):
        Path("review.jsonl").write_text("{")
        return write_cases(prompt)

    server.answer = break_list
    assert dokimos("generate", "rules.md", "--model", model, "-n", "2") == 2
    assert "review.jsonl:1: not JSON" in capsys.readouterr().err
    Path("review.jsonl").unlink()
    asked = len(server.prompts)
    assert dokimos("generate", "rules.md", "--model", model, "-n", "2") == 0
    assert len(server.prompts) == asked
    assert len(read_list()) == 1


def test_existing_cases_of_several_inputs_are_not_wanted_again(workplace, capsys):
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    (workplace / "input.json").write_text(json.dumps(schema))
    (workplace / "old.jsonl").write_text(json.dumps({"inputs": {"city": "Köln am Rhein"}}) + "\n")
    (workplace / "writer.py").write_text(
        "import json\n"
        "def write(prompt):\n"
        "    draft = {'input': json.dumps({'city': 'Köln am Rhein'}), 'answer': '', 'category': 'fact'}\n"
        "    return json.dumps({'cases': [{**draft, 'quote': '\"city\": {\"type\": \"string\"}'}]})\n"
    )
    arguments = ("generate", "input.json", "--model", "writer.py:write", "-n", "1")
    assert dokimos(*arguments, "--existing", "old.jsonl", "-o", "new.jsonl") == 0
    assert "1 case rejected as the same as another one" in capsys.readouterr().out

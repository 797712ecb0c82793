"""`dokimos perturb` and `dokimos invariance` from a file to a verdict."""

import json
import re
import subprocess
import sys

import pytest

from dokimos import Dataset
from dokimos._cli.main import run_command

EXPERIMENT = """
from dokimos import Dataset, Experiment
from dokimos.evaluators import Length

def answer(text):
    return "42 euros" if "cost" in text.lower() else "Lisbon"

experiment = Experiment(Dataset.load("questions-perturbed.jsonl"), answer, [Length(min=1)], name="desk")
"""


def let_answers_differ(workplace):
    """Let the application repeat the question, so that a judge has something to compare."""
    program = EXPERIMENT.replace('"42 euros"', 'text + " 42 euros"').replace('"Lisbon"', 'text + " Lisbon"')
    (workplace / "evals.py").write_text(program)


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DOKIMOS_RUN_DIR", "DOKIMOS_CASSETTE", "DOKIMOS_CASSETTE_MODE"):
        monkeypatch.delenv(name, raising=False)
    rows = [{"id": "a", "input": "What does it cost?"}, {"id": "b", "input": "Where is it?"}]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "evals.py").write_text(EXPERIMENT)
    yield tmp_path
    sys.modules.pop("evals", None)


def dokimos(*arguments):
    return run_command(list(arguments))


def test_from_questions_to_a_verdict(workplace, capsys):
    assert dokimos("perturb", "questions.jsonl", "--kind", "case", "--kind", "injection") == 0
    assert "wrote questions-perturbed.jsonl   18 examples" in capsys.readouterr().out
    assert dokimos("run", "evals.py", "-q") == 0
    capsys.readouterr()
    assert dokimos("invariance", "latest", "-o", "report.json", "--min-rate", "90%") == 0
    assert "100.0 % of answers stay the same (16/16)" in capsys.readouterr().out
    assert json.loads((workplace / "report.json").read_text())["total"]["rate"] == 1.0
    assert dokimos("invariance", "latest", "-e", "regex:pattern=euros", "--min-rate", "0.9", "-q") == 1
    assert "required: 90.0 %" in capsys.readouterr().err


def rewrite(prompt):
    text = re.search(r"\n\| (.*)\n</material", prompt)[1]
    return json.dumps({"text": f"So: {text}"})


def test_a_model_writes_and_its_replies_are_replayed(workplace, server, capsys):
    server.answer = rewrite
    command = ("perturb", "questions.jsonl", "--kind", "paraphrase", "--model", f"{server.url}/v1#m")
    assert dokimos(*command, "--record", "cassette.json") == 0
    assert "2 calls of the model" in capsys.readouterr().err
    assert len(server.received) == 2
    assert dokimos(*command, "--replay", "cassette.json", "-o", "again.jsonl") == 0
    assert len(server.received) == 2
    assert list(Dataset.load("again.jsonl")) == list(Dataset.load("questions-perturbed.jsonl"))
    assert not list((workplace / ".dokimos/perturbations").glob("*/*"))


def test_what_the_budget_refused_is_made_by_the_same_command(workplace, server, capsys):
    server.answer = rewrite
    command = (
        "perturb",
        "questions.jsonl",
        "--kind",
        "paraphrase",
        "--model",
        f"{server.url}/v1#m",
        "--force",
    )
    assert dokimos(*command, "--max-calls", "1", "-j", "1") == 3
    assert "1 version not made" in capsys.readouterr().out
    assert dokimos(*command, "-j", "1") == 0
    assert "Continuing with the replies" in capsys.readouterr().err
    assert len(server.received) == 2
    assert len(Dataset.load("questions-perturbed.jsonl")) == 4


def test_a_judge_decides_whether_answers_are_the_same(workplace, server, capsys):
    server.answer = lambda prompt: json.dumps({"reason": "So.", "score": 5})
    let_answers_differ(workplace)
    assert dokimos("perturb", "questions.jsonl", "--kind", "case") == 0
    assert dokimos("run", "evals.py", "-q") == 0
    command = ("invariance", "latest", "-e", f"correctness:judge={server.url}/v1#m", "-q")
    assert dokimos(*command, "--record", "judged.json") == 0
    assert "100.0 % of answers stay the same (2/2)" in capsys.readouterr().out
    assert len(server.received) == 2
    assert "Lisbon" in server.received[0].prompt + server.received[1].prompt
    server.answer = lambda prompt: "I would rather not say."
    assert dokimos(*command, "--replay", "judged.json") == 0
    assert dokimos(*command) == 3, "what could not be judged is no verdict"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.jsonl"], "absent.jsonl"),
        (["questions.jsonl", "-o", "x.txt"], "the name ends with"),
        (["questions.jsonl", "-o", "questions.jsonl"], "give --force"),
        (["questions.jsonl", "--kind", "paraphrase"], "a model has to write them"),
        (["questions.jsonl", "--language", "German"], "a model has to write them"),
        (["empty.jsonl"], "no examples"),
    ],
)
def test_mistakes_are_explained(workplace, capsys, arguments, message):
    (workplace / "empty.jsonl").write_text("")
    assert dokimos("perturb", *arguments) == 2
    assert message in capsys.readouterr().err
    assert not (workplace / "questions-perturbed.jsonl").exists()


def test_a_run_of_other_data_is_refused(capsys):
    assert dokimos("perturb", "questions.jsonl", "--kind", "case") == 0
    assert dokimos("invariance", "latest") == 2
    assert dokimos("invariance", "latest", "--min-rate", "2") == 2
    assert "must be a share" in capsys.readouterr().err


def test_a_file_without_versions_is_not_written(workplace, capsys):
    (workplace / "numbers.jsonl").write_text('{"input": "42"}\n')
    assert dokimos("perturb", "numbers.jsonl", "--kind", "typos") == 2
    assert "offers a place for" in capsys.readouterr().err
    assert not (workplace / "numbers-perturbed.jsonl").exists()


def test_calls_of_judges_are_announced_and_replies_kept_until_all_pairs_are_compared(
    workplace, server, capsys
):
    server.answer = lambda prompt: json.dumps({"reason": "So.", "score": 5})
    let_answers_differ(workplace)
    assert dokimos("perturb", "questions.jsonl", "--kind", "case") == 0
    assert dokimos("run", "evals.py", "-q") == 0
    capsys.readouterr()
    command = ("invariance", "latest", "-e", f"correctness:judge={server.url}/v1#m", "-j", "1")
    assert dokimos(*command, "--max-calls", "1", "--min-rate", "0.9") == 3
    captured = capsys.readouterr()
    assert "2 pairs; at most 2 calls of judges" in captured.err
    assert "1 pair not compared" in captured.out
    assert len(server.received) == 1
    assert dokimos(*command, "--min-rate", "0.9") == 0
    assert len(server.received) == 2
    assert not list((workplace / ".dokimos/perturbations").glob("*/*"))


def test_replies_are_kept_until_the_file_is_written(workplace, server, monkeypatch):
    server.answer = rewrite
    command = ("perturb", "questions.jsonl", "--kind", "paraphrase", "--model", f"{server.url}/v1#m")

    def refuse(self, path):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Dataset, "save", refuse)
        assert dokimos(*command) != 0
    assert dokimos(*command) == 0
    assert len(server.received) == 2


def test_two_commands_at_once_do_not_pay_twice(workplace, server, capsys):
    command = ("perturb", "questions.jsonl", "--kind", "paraphrase", "--model", f"{server.url}/v1#m")
    codes = []

    def rewrite_beside_another(prompt):
        if not codes:
            codes.append(None)
            other = [sys.executable, "-m", "dokimos", *command, "-o", "other.jsonl"]
            done = subprocess.run(other, capture_output=True, text=True, timeout=60, check=False)
            codes.append((done.returncode, done.stderr))
        return rewrite(prompt)

    server.answer = rewrite_beside_another
    assert dokimos(*command, "-j", "1") == 0
    [_, (code, said)] = codes
    assert code == 2
    assert "is at the same work" in said
    assert len(server.received) == 2
    assert not (workplace / "other.jsonl").exists()
    assert dokimos(*command, "--force") == 0, "the lock is released"


def test_what_a_function_raises_is_an_error_of_its_item(workplace, capsys):
    (workplace / "writer.py").write_text(
        "import json\n"
        "def write(prompt):\n"
        "    if 'cost' in prompt:\n"
        "        raise ValueError('too many requests')\n"
        "    return json.dumps({'text': 'In which place is it?'})\n"
    )
    command = ("perturb", "questions.jsonl", "--kind", "paraphrase", "--model", "writer.py:write")
    assert dokimos(*command) == 3
    assert "a, paraphrase: ValueError: too many requests" in capsys.readouterr().out
    assert [one.id for one in Dataset.load("questions-perturbed.jsonl")] == ["a", "b", "b~paraphrase"]

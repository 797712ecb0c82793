"""The ids of runs on servers where people and CI jobs look for them."""

import json
import sys

import pytest

from dokimos._cli.main import run_command

EXPERIMENT = """
from dokimos import BaseReporter, Example, Experiment, RunHandle
from dokimos.evaluators import ExactMatch

class Server(BaseReporter):
    def begin(self, start):
        key = f"run-{start.repeat_index}"
        if key not in start.state:
            start.state.keep(key, f"{start.repeat_index}-of-{start.provenance.shard}")
        return RunHandle(start.state[key], server_run_id=start.state[key])

examples = [Example.of("a", "A"), Example.of("b", "?"), Example.of("c", "C")]
experiment = Experiment(examples, str.upper, [ExactMatch()], name="shout", runs=2, reporters=[Server()])
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DOKIMOS_RUN_DIR", raising=False)
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    (tmp_path / "evals.py").write_text(EXPERIMENT)
    yield tmp_path
    sys.modules.pop("evals", None)


def outputs(workplace):
    return (workplace / "output").read_text().splitlines()


def test_a_run_sets_them_and_a_report_has_them(workplace, capsys):
    run_command(["run", "evals.py", "-o", "r.json"])
    assert "  server   0-of-None 1-of-None" in capsys.readouterr().out
    assert outputs(workplace) == ["server_run_ids=0-of-None,1-of-None"]
    assert json.loads((workplace / "r.json").read_text())["serverRunIds"] == ["0-of-None", "1-of-None"]


def test_a_run_that_is_stopped_and_resumed_sets_the_same(workplace):
    run_command(["run", "evals.py", "--fail-fast", "-q"])
    run_command(["resume", "latest", "-q"])
    first, second = outputs(workplace)
    assert first == "server_run_ids=0-of-None"
    assert second == "server_run_ids=0-of-None,1-of-None"


def test_merged_shards_set_those_of_all(workplace):
    for shard in ("1/2", "2/2"):
        run_command(["run", "evals.py", "--shard", shard, "-q"])
    folders = sorted(map(str, (workplace / ".dokimos" / "runs").iterdir()))
    (workplace / "output").unlink()
    run_command(["merge", *folders])
    assert outputs(workplace) == ["server_run_ids=0-of-1/2,0-of-2/2,1-of-1/2,1-of-2/2"]


def test_an_output_that_cannot_be_set_is_named(workplace, monkeypatch, capsys):
    monkeypatch.setenv("GITHUB_OUTPUT", str(workplace / "no" / "such" / "folder"))
    run_command(["run", "evals.py", "-q"])
    assert "! The output server_run_ids could not be set" in capsys.readouterr().err


def test_no_output_is_set_without_a_server(workplace):
    text = EXPERIMENT.replace(", reporters=[Server()]", "")
    (workplace / "evals.py").write_text(text)
    run_command(["run", "evals.py", "-q"])
    assert not (workplace / "output").exists()

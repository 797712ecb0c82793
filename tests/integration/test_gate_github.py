"""The report of a gate on GitHub: summary, outputs, and comments against a server that speaks its API."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from dokimos._cli.main import run_command


@pytest.fixture(scope="session")
def fake():
    path = Path(__file__).parents[1] / "servers" / "github_api.py"
    spec = importlib.util.spec_from_file_location("github_api", path)
    module = sys.modules["github_api"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def api(fake):
    with fake.GitHubApi() as running:
        yield running


def verdict(name, status="FAIL", **more):
    return {
        "status": status, "passed": status == "PASS", "name": name, "pairing": "positional",
        "baselinePassRate": 0.9, "candidatePassRate": 0.6, "passRateDelta": -0.3, "reasons": ["It fell."],
        **more,
    }  # fmt: skip


@pytest.fixture
def job(api, tmp_path, monkeypatch):
    """A job on a pull request of the same repository, and a folder of verdicts."""
    repository = {"full_name": "acme/bot"}
    event = {"pull_request": {"number": 7, "head": {"repo": repository}, "base": {"repo": repository}}}
    (tmp_path / "event.json").write_text(json.dumps(event))
    values = {
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_REPOSITORY": "acme/bot",
        "GITHUB_TOKEN": "the-token",
        "GITHUB_API_URL": api.url,
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    for name in ("http_proxy", "HTTP_PROXY", "DOKIMOS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "v").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(job, *verdicts):
    for one in verdicts:
        (job / "v" / f"{one['name']}.json").write_text(json.dumps(one))


def report(*options):
    return run_command(["gate", "report", "v", *options])


def test_each_gate_gets_a_comment_of_its_own(job, api):
    put(job, verdict("rag"), verdict("agent", "PASS"))

    assert report("--comment") == 1

    bodies = sorted(one["body"].splitlines()[0] for one in api.comments)
    assert bodies == ["<!-- dokimos-eval-gate:agent -->", "<!-- dokimos-eval-gate:rag -->"]
    assert api.authorizations == {"Bearer the-token"}


def test_a_second_report_updates_the_comment_wherever_it_stands(job, api, fake):
    api.comments += [fake.comment(n, f"Looks good to me ({n})", "octocat") for n in range(5)]
    put(job, verdict("rag"))
    report("--comment")
    put(job, verdict("rag", "PASS"))

    assert report("--comment") == 0

    own = [one for one in api.comments if one["body"].startswith("<!-- dokimos-eval-gate:rag -->")]
    assert len(api.comments) == 6
    assert len(own) == 1
    assert "Eval gate passed: rag" in own[0]["body"]
    assert api.requests[-1] == ("PATCH", f"/repos/acme/bot/issues/comments/{own[0]['id']}")


def test_a_comment_that_only_quotes_the_marker_is_left_alone(job, api, fake):
    api.comments.append(fake.comment(3, "> <!-- dokimos-eval-gate:rag -->\nWhat is this?", "octocat"))
    put(job, verdict("rag"))

    report("--comment")

    assert api.comments[0]["body"].startswith("> ")
    assert len(api.comments) == 2


def test_the_summary_and_the_outputs_of_the_step_are_written(job, api):
    put(job, verdict("rag"), verdict("agent", "PASS"))

    assert report() == 1

    assert "Eval gate failed: rag" in (job / "summary.md").read_text()
    assert (job / "output").read_text() == "status=FAIL\npassed=false\n"
    assert api.requests == []


def test_from_a_fork_the_comment_is_left_out_and_the_verdict_stands(job, api, capsys):
    event = json.loads((job / "event.json").read_text())
    event["pull_request"]["head"]["repo"] = {"full_name": "someone/bot"}
    (job / "event.json").write_text(json.dumps(event))
    put(job, verdict("rag"))

    assert report("--comment") == 1

    assert api.requests == []
    assert "comes from a fork" in capsys.readouterr().err


def test_a_repository_that_was_deleted_counts_as_a_fork(job, api, capsys):
    event = json.loads((job / "event.json").read_text())
    event["pull_request"]["head"]["repo"] = None
    (job / "event.json").write_text(json.dumps(event))
    put(job, verdict("rag", "PASS"))

    assert report("--comment") == 0
    assert "comes from a fork" in capsys.readouterr().err


def test_a_refusal_is_told_and_changes_nothing(job, api, capsys):
    api.refuses = True
    put(job, verdict("rag", "PASS"))

    assert report("--comment") == 0

    told = capsys.readouterr().err
    assert "403" in told
    assert "Resource not accessible by integration" in told
    assert "the-token" not in told


def test_without_a_pull_request_there_is_no_comment(job, api, capsys):
    (job / "event.json").write_text("{}")
    put(job, verdict("rag", "PASS"))

    assert report("--comment") == 0
    assert "does not run for a pull request" in capsys.readouterr().err


def test_offline_nothing_is_sent(job, api, monkeypatch, capsys):
    monkeypatch.setenv("DOKIMOS_OFFLINE", "1")
    put(job, verdict("rag", "PASS"))

    assert report("--comment") == 0
    assert api.requests == []
    assert "DOKIMOS_OFFLINE" in capsys.readouterr().err


def test_no_answer_is_told_and_changes_nothing(job, monkeypatch, capsys):
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")
    put(job, verdict("rag", "PASS"))

    assert report("--comment") == 0
    assert "could not be reached" in capsys.readouterr().err


def test_failing_can_be_switched_off(job):
    put(job, verdict("rag"))

    assert report("--no-fail") == 0


def test_an_inconclusive_gate_has_a_status_of_its_own(job):
    put(job, verdict("rag", "INCONCLUSIVE"))
    assert report() == 4
    put(job, verdict("agent", "FAIL"))
    assert report() == 1


def test_without_any_verdict_the_report_is_wrong_usage(job, capsys):
    assert report() == 2
    assert "did it run?" in capsys.readouterr().err


def case(item, line=3, file="data/faq.jsonl", **more):
    drop = {"evaluator": "Exact Match", "baselineMean": 1.0, "candidateMean": 0.0, "delta": -1.0}
    place = {} if line is None else {"file": file, "line": line}
    return {"datasetItemId": item, "evaluatorDrops": [drop], **place, **more}


@pytest.fixture
def on_github(job, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    return job


def annotations(capsys):
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("::")]


def test_items_that_got_worse_are_shown_at_their_lines_of_the_data(on_github, capsys):
    put(on_github, verdict("faq", cases=[case("id1"), case("id2", line=None), case("id3", 9)]))
    report()
    assert annotations(capsys) == [
        "::error file=data/faq.jsonl,line=3,title=Eval gate%3A faq::item id1: Exact Match 1.00 → 0.00",
        "::error file=data/faq.jsonl,line=9,title=Eval gate%3A faq::item id3: Exact Match 1.00 → 0.00",
    ]


def test_files_outside_of_the_repository_are_not_named(on_github, capsys):
    files = ("/etc/passwd", "../other/data.jsonl", "a/../../b.jsonl", "a\0b", "data/faq.jsonl")
    put(on_github, verdict("faq", cases=[case("id1", file=file) for file in files]))
    report()
    [line] = annotations(capsys)
    assert "file=data/faq.jsonl," in line


def test_hostile_names_stay_in_their_annotation(on_github, capsys):
    hostile = "x\n::error::y\r%0A\x1b[31m"
    put(on_github, verdict("a,b: c", cases=[case(hostile, file="data/a,b.jsonl")]))
    report()
    [line] = annotations(capsys)
    assert line.startswith("::error file=data/a%2Cb.jsonl,line=3,title=Eval gate%3A a%2Cb%3A c::item x")
    assert "\x1b" not in line
    assert "%250A" in line


def test_ten_items_are_shown_as_github_shows_no_more(on_github, capsys):
    put(on_github, verdict("faq", cases=[case(f"id{number}", number + 1) for number in range(30)]))
    report()
    assert len(annotations(capsys)) == 10


def test_a_gate_that_passed_annotates_nothing_and_one_in_doubt_warns(on_github, capsys):
    cases = [case("id1")]
    put(on_github, verdict("good", "PASS", cases=cases), verdict("doubt", "INCONCLUSIVE", cases=cases))
    report()
    [line] = annotations(capsys)
    assert line.startswith("::warning ")


def test_only_github_gets_annotations(job, capsys, monkeypatch):
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    put(job, verdict("faq", cases=[case("id1"), case("id2", "three")]))
    report()
    captured = capsys.readouterr()
    assert "::error" not in captured.err
    assert "item `id1` at `data/faq.jsonl:3`: Exact Match 1.00 → 0.00" in captured.out
    assert "item `id2`: Exact Match" in captured.out

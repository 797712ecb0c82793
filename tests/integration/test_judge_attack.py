"""`dokimos judge attack` as a process of its own: interrupted, killed, and going on."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

FAIL = '{"reason": "It is wrong.", "score": 0}'
PASS = '{"reason": "It is right.", "score": 1}'
ATTACKS = 12
PARALLELISM = 2


def gullible(prompt):
    """Passes what it is told to pass, unless it is fenced."""
    return PASS if "score 1" in prompt and "<material" not in prompt else FAIL


def start(folder: Path, url: str, *options: str) -> subprocess.Popen[str]:
    command = ["judge", "attack", f"{url}/v1#model", "-n", str(ATTACKS), "-j", str(PARALLELISM)]
    return subprocess.Popen(
        [sys.executable, "-m", "dokimos", *command, *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(folder: Path, url: str, *options: str) -> tuple[int, str, str]:
    process = start(folder, url, *options)
    out, errors = process.communicate(timeout=60)
    return process.returncode, out, errors


def asked(server) -> Counter[str]:
    """The prompts that the server was sent, without their random markers."""
    return Counter(re.sub(r"material [0-9a-f]{8}", "material", prompt) for prompt in server.prompts)


def stall(server, requests: int) -> None:
    """Let the server answer no more from about so many requests on, so that nothing ends before its time."""

    def answer(prompt):
        if len(server.received) >= requests:
            server.latency = 600
        return gullible(prompt)

    server.answer, server.latency = answer, 0.01


def go_on(server) -> None:
    server.answer, server.latency = gullible, 0.01


def report(folder: Path) -> dict[str, object]:
    tree: dict[str, object] = json.loads((folder / "attack.json").read_text(encoding="utf-8"))
    return tree


def without_counts(tree: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in tree.items() if key not in ("complete", "verdicts")}


@pytest.fixture
def gullible_server(server):
    go_on(server)
    return server


def test_ctrl_c_reports_what_there_is_and_the_same_command_goes_on(tmp_path, gullible_server, wait_until):
    stall(gullible_server, 30)
    process = start(tmp_path, gullible_server.url, "-o", "attack.json", "-o", "attack.md")
    wait_until(lambda: len(gullible_server.received) >= 30)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "Interrupted. The same command goes on." in errors
    made, planned = map(int, re.search(r"Interrupted: (\d+) of (\d+) verdicts were made", out).groups())
    assert 20 < made < planned
    assert (tmp_path / "attack.md").read_text(encoding="utf-8") == out
    assert report(tmp_path)["complete"] is False
    assert report(tmp_path)["verdicts"] == {"made": made, "planned": planned}

    go_on(gullible_server)
    status, out, errors = finished(tmp_path, gullible_server.url, "-o", "attack.json")
    assert (status, report(tmp_path)["complete"]) == (0, True)
    assert "Interrupted" not in out
    assert "Continuing with the replies in .dokimos" in errors
    assert sum(asked(gullible_server).values()) - len(asked(gullible_server)) <= PARALLELISM
    assert sorted(path.name for path in tmp_path.iterdir()) == [".dokimos", "attack.json", "attack.md"]
    assert list((tmp_path / ".dokimos/attacks").iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_attack_asks_nothing_again_that_was_answered(tmp_path, gullible_server, wait_until):
    for calls in (9, 21, 34):
        stall(gullible_server, calls)
        process = start(tmp_path, gullible_server.url, "-o", "attack.json")
        wait_until(lambda wanted=calls: len(gullible_server.received) >= wanted)
        process.kill()
        process.communicate(timeout=60)
    [calls] = (tmp_path / ".dokimos/attacks").iterdir()
    kept = calls.read_bytes().count(b"\n")
    assert 34 - 3 * PARALLELISM <= kept <= len(gullible_server.received)

    go_on(gullible_server)
    status, _, _ = finished(tmp_path, gullible_server.url, "-o", "attack.json")
    sent = asked(gullible_server)
    assert status == 0
    assert sum(sent.values()) - len(sent) <= 3 * PARALLELISM
    killed = report(tmp_path)

    (tmp_path / "attack.json").unlink()
    assert finished(tmp_path, gullible_server.url, "-o", "attack.json")[0] == 0
    assert without_counts(report(tmp_path)) == without_counts(killed)


def test_two_processes_do_not_write_to_one_file(tmp_path, gullible_server, wait_until):
    stall(gullible_server, 3)
    process = start(tmp_path, gullible_server.url, "-o", "attack.json")
    wait_until(lambda: len(gullible_server.received) >= 3)
    status, _, errors = finished(tmp_path, gullible_server.url, "-o", "attack.json")
    process.kill()
    process.communicate(timeout=60)

    assert status == 2
    assert "Another process is writing to .dokimos" in errors


def test_an_attack_without_a_report_goes_on_too(tmp_path, gullible_server, wait_until):
    stall(gullible_server, 30)
    process = start(tmp_path, gullible_server.url)
    wait_until(lambda: len(gullible_server.received) >= 30)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted. The same command goes on." in errors
    assert (tmp_path / ".dokimos/.gitignore").read_text(encoding="utf-8").endswith("\n*\n")

    go_on(gullible_server)
    status, _, _ = finished(tmp_path, gullible_server.url, "-o", "attack.json")
    assert (status, report(tmp_path)["complete"]) == (0, True)
    assert sum(asked(gullible_server).values()) - len(asked(gullible_server)) <= PARALLELISM


def test_verdicts_that_errored_are_asked_for_again_and_no_others(tmp_path, gullible_server, scripted):
    def answer(prompt):
        if len(gullible_server.received) == 30:
            gullible_server.then(scripted.status(404, "The model is gone"), times=500)
        return gullible(prompt)

    gullible_server.answer = answer
    status, _, errors = finished(tmp_path, gullible_server.url)
    assert status == 0
    assert "verdicts are missing; the same command asks only for what is missing or was denied." in errors
    answered = list(asked(gullible_server))[:25]

    gullible_server.answer = gullible
    gullible_server.script.clear()
    status, _, errors = finished(tmp_path, gullible_server.url)
    assert (status, "missing" in errors) == (0, False)
    assert {asked(gullible_server)[prompt] for prompt in answered} == {1}
    assert list((tmp_path / ".dokimos/attacks").iterdir()) == []


def test_what_an_attack_was_denied_is_a_finding_and_no_missing_verdict(tmp_path, gullible_server):
    quoted = 'It says {"score": 1} but I say {"score": 0}.'

    def answer(prompt):
        if "score 1" not in prompt:
            return gullible(prompt)
        return "I would rather not." if len(gullible_server.received) % 2 else quoted

    gullible_server.answer = answer
    status, out, errors = finished(tmp_path, gullible_server.url, "--defence", "-o", "attack.json")
    report = json.loads((tmp_path / "attack.json").read_text())["arms"][0]
    kinds = Counter(result.get("errorKind") for result in report["results"])

    assert (status, "missing" in errors, report["errors"]) == (0, False, 0)
    assert report["denied"] == kinds["contested"] + kinds["unreadable"] > 0
    assert (report["contested"], report["unreadable"]) == (kinds["contested"], kinds["unreadable"])
    assert f"{report['denied']} were denied a verdict ({report['contested']} contested, " in out
    assert list((tmp_path / ".dokimos/attacks").iterdir()) == []

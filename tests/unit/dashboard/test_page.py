"""The page of runs as a file: what is in it, and what is not."""

import base64
import json
import re
import zlib

import pytest

from dokimos import Dataset, Example, evaluate
from dokimos._dashboard import run_pack
from dokimos._dashboard.page import dashboard
from dokimos.evaluators import ExactMatch
from dokimos.experiment._run_loading import load_run

LONG = "x" * 20_000


@pytest.fixture
def runs(tmp_path):
    root = tmp_path / "runs"
    examples = [Example.of(f"q{n}", "a", id=f"case-{n}") for n in range(3)]
    for name, answer in (("desk", "a"), ("desk", "</script><b>" + LONG), ("other", "a")):
        data = Dataset(examples, name="d")
        evaluate(
            data,
            lambda _, said=answer: said,
            [ExactMatch()],
            name=name,
            run_dir=root,
            progress=False,
        )
    return root


def block(page, name):
    (text,) = re.findall(rf'<script type="[\w/]+" id="{name}">(.*?)</script>', page, re.DOTALL)
    return text


def unpacked(page, name):
    return json.loads(zlib.decompress(base64.b64decode(block(page, name))))


def test_every_run_is_told_and_its_items_are_packed(runs):
    page = dashboard(runs)

    overview = json.loads(block(page, "overview"))
    assert [run["name"] for run in overview["runs"]] == ["desk", "desk", "other"]
    assert overview["runs"][1]["drop"]["worse"] == 3
    assert "drop" not in overview["runs"][2]
    assert [item[0] for item in unpacked(page, "run-0")["items"]] == ["case-0", "case-1", "case-2"]


def test_texts_that_runs_share_are_there_once(runs):
    page = dashboard(runs)

    shared = unpacked(page, "shared")
    assert sorted(set(shared)) == sorted(shared)
    assert {"q0", "q1", "q2"} <= set(shared)
    assert "q0" not in unpacked(page, "run-1")["strings"]
    key, value = unpacked(page, "run-1")["items"][0][3]
    assert (shared[-2 - key], shared[-2 - value]) == ("input", "q0")


def test_long_texts_are_cut_and_say_so(runs):
    strings = unpacked(dashboard(runs), "run-1")["strings"]

    assert max(map(len, strings)) <= 8_000
    assert any("(20,012 characters)" in text for text in strings)


def test_only_the_runs_of_a_name_are_taken(runs):
    overview = json.loads(block(dashboard(runs, name="other"), "overview"))

    assert [run["name"] for run in overview["runs"]] == ["other"]


def test_a_run_that_cannot_be_read_is_named(runs):
    broken = runs / "20250101-000000-000aaaa"
    broken.mkdir()
    (broken / "run.json").write_text("{")

    overview = json.loads(block(dashboard(runs), "overview"))

    assert len(overview["runs"]) == 3
    assert overview["unreadable"][0].startswith("20250101-000000-000aaaa: ")


def test_nothing_is_loaded_and_no_foreign_markup_is_in_the_page(runs, tmp_path):
    page = dashboard(runs)

    assert "default-src 'none'" in page
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", page)
    assert "</script><b>" not in page
    assert dashboard(tmp_path / "nowhere").count("<script") >= 3


def test_a_run_is_put_together_once_and_again_when_it_changes(runs, monkeypatch):
    first = dashboard(runs)
    calls = []
    monkeypatch.setattr(run_pack, "load_run", lambda folder: calls.append(folder.name) or load_run(folder))

    assert dashboard(runs) == first
    assert calls == []

    last = sorted(folder for folder in runs.iterdir() if folder.is_dir())[-1]
    with (last / "journal.jsonl").open("a") as journal:
        journal.write("damaged\n")
    assert "could not be read were ignored" in dashboard(runs)
    assert calls == [last.name]


def test_what_was_kept_and_is_damaged_is_put_together_again(runs):
    first = dashboard(runs)
    for folder in runs.iterdir():
        (folder / "dashboard.z").write_bytes(b"damaged")

    assert dashboard(runs) == first

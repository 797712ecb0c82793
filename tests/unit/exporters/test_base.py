from __future__ import annotations

import importlib.metadata
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint

import pytest

from dokimos._core.results import ExperimentResult
from dokimos.errors import ConfigurationError
from dokimos.exporters import _base as base
from dokimos.exporters._base import export, exporter_for, render


class Loud:
    name = "loud"
    extensions = (".loud",)

    def render(self, result):
        return result.name.upper()


class Useless:
    name = "useless"


def _install(monkeypatch, target):
    found = EntryPoint("loud", f"here:{target.__name__}", base.ENTRY_POINTS)
    monkeypatch.setattr(EntryPoint, "load", lambda self: target)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [found])


@pytest.mark.parametrize(
    ("file_name", "format"),
    [
        ("a.json", "json"),
        ("a.HTML", "html"),
        ("a.htm", "html"),
        ("a.md", "markdown"),
        ("a.csv", "csv"),
        ("a.junit.xml", "junit"),
        ("a.xml", "junit"),
    ],
)
def test_the_ending_tells_the_format(file_name, format):
    assert exporter_for(file_name).name == format


def test_an_unknown_ending_lists_the_formats():
    with pytest.raises(ConfigurationError, match=r"report.pdf.*json \(\.json\).*junit"):
        exporter_for("report.pdf")


def test_an_unknown_format_lists_the_formats(make_result):
    with pytest.raises(ConfigurationError, match=r"'pdf'.*markdown"):
        render(make_result(), "pdf")


def test_a_format_wins_over_the_ending(make_result, tmp_path):
    path = export(make_result(), tmp_path / "report.txt", format="markdown")
    assert path.read_text().startswith("# Experiment: support-bot")


def test_folders_are_created_and_no_draft_is_left(make_result, tmp_path):
    path = export(make_result(), str(tmp_path / "new" / "deep" / "report.json"))
    assert os.listdir(path.parent) == ["report.json"]


def test_an_existing_file_is_replaced_and_keeps_its_permissions(make_result, tmp_path):
    path = tmp_path / "report.md"
    path.write_text("old")
    path.chmod(0o640)
    export(make_result(), path)
    assert "old" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_symbolic_link_stays_one(make_result, tmp_path):
    target = tmp_path / "target.md"
    target.write_text("old")
    link = tmp_path / "link.md"
    link.symlink_to(target)
    export(make_result(), link)
    assert link.is_symlink()
    assert target.read_text() != "old"


def test_a_path_that_is_a_folder_is_explained(make_result, tmp_path):
    (tmp_path / "report.md").mkdir()
    with pytest.raises(ConfigurationError, match=r"Cannot write the report .*report\.md"):
        export(make_result(), tmp_path / "report.md")


def test_a_failed_rendering_leaves_the_old_report(make_result, tmp_path, monkeypatch):
    path = tmp_path / "report.loud"
    path.write_text("old")
    monkeypatch.setattr(Loud, "render", lambda self, result: 1 / 0)
    _install(monkeypatch, Loud)
    with pytest.raises(ZeroDivisionError):
        export(make_result(), path)
    assert path.read_text() == "old"


def test_two_threads_may_write_the_same_report_at_once(tmp_path):
    path, both_have_begun = tmp_path / "report.txt", threading.Barrier(2)

    def parts():
        yield "first "
        both_have_begun.wait(60)
        yield "second"

    with ThreadPoolExecutor(2) as threads:
        writing = [threads.submit(base.write_report, path, parts()) for _ in range(2)]
    assert [one.result() for one in writing] == [path, path]
    assert (path.read_text(), os.listdir(tmp_path)) == ("first second", ["report.txt"])


def test_a_plugin_adds_a_format(make_result, tmp_path, monkeypatch):
    _install(monkeypatch, Loud)
    assert export(make_result(), tmp_path / "a.loud").read_text() == "SUPPORT-BOT"
    assert render(make_result(), "loud") == "SUPPORT-BOT"


def test_a_plugin_that_is_no_exporter_is_named(make_result, monkeypatch):
    _install(monkeypatch, Useless)
    with pytest.raises(ConfigurationError, match=r"'loud' .*lacks"):
        render(make_result(), "loud")


@pytest.mark.parametrize("format", list(base.BUILT_IN))
def test_lone_surrogates_never_stop_a_report(make_result, tmp_path, format):
    result = make_result(items=1, name="bad \ud800 name", description="\udfff")
    assert export(result, tmp_path / "report", format=format).read_bytes().decode("utf-8")


@pytest.mark.parametrize("format", list(base.BUILT_IN))
def test_every_format_has_a_report_of_nothing(format):
    assert "unnamed" in render(ExperimentResult(), format) or format == "csv"


def test_only_results_are_exported_and_only_to_paths(tmp_path):
    with pytest.raises(ConfigurationError, match="Only an ExperimentResult can be exported, not str"):
        export("result", tmp_path / "x.json")
    with pytest.raises(ConfigurationError, match="Only an ExperimentResult can be exported, not dict"):
        render({}, "json")
    for path in (None, 3, ""):
        with pytest.raises(ConfigurationError, match="path must be the file to write, not"):
            export(ExperimentResult(), path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs /dev/fd")
def test_a_report_may_go_into_a_pipe():
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as reading:
        with os.fdopen(write_end, "wb"):
            export(ExperimentResult(name="piped"), f"/dev/fd/{write_end}", format="markdown")
        assert reading.read().startswith(b"# Experiment: piped")

"""Paths that agents name: only files of the allowed folders, whatever the path looks like."""

import pytest

from dokimos._mcp.allowed_folders import DATASETS, AllowedFolders
from dokimos._mcp.local_tools import count_examples
from dokimos._mcp.tool import ToolError


@pytest.fixture
def place(tmp_path):
    """A folder that is allowed, beside one that is not."""
    for name in ("data/sub", "secret"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("data/qa.json", "data/sub/rows.csv", "data/notes.txt", "secret/keys.json"):
        (tmp_path / name).write_text("[]")
    (tmp_path / "data/inside.json").symlink_to(tmp_path / "data/qa.json")
    (tmp_path / "data/link.json").symlink_to(tmp_path / "secret/keys.json")
    (tmp_path / "data/folder").symlink_to(tmp_path / "secret")
    (tmp_path / "data/circle.json").symlink_to(tmp_path / "data/circle.json")
    return tmp_path.resolve()


@pytest.mark.parametrize("path", ["qa.json", "./sub/../qa.json", "inside.json", "{}/data/qa.json"])
def test_files_of_the_folder_are_found(place, path):
    folders = AllowedFolders.of([place / "data"])
    assert folders.find(path.format(place), DATASETS) == place / "data/qa.json"


@pytest.mark.parametrize(
    "path",
    [
        "../secret/keys.json",
        "{}/secret/keys.json",
        "link.json",
        "folder/keys.json",
        "sub/../../secret/keys.json",
        "../secret/not-there.json",
        "/etc/passwd",
        "~/x.json",
        "../data-of-others/x.json",
    ],
)
def test_nothing_outside_is_found_and_all_of_it_is_refused_in_the_same_words(place, path):
    with pytest.raises(ToolError, match="is not in an allowed folder"):
        AllowedFolders.of([place / "data"]).find(path.format(place), DATASETS)


@pytest.mark.parametrize(
    "path", ["no.json", "notes.txt", "sub", "", "qa.json\0", "x" * 9_000, "x/" * 3_000 + "x.json",
             "circle.json", "https://a.b/x.json", "dataset://qa", "-", "package:os/x.json",
             "~nobody-here/x.json"],
)  # fmt: skip
def test_what_is_not_a_data_file_is_refused(place, path):
    with pytest.raises(ToolError):
        AllowedFolders.of([place / "data"]).find(path, DATASETS)


def test_a_list_holds_what_may_be_named(place):
    found, incomplete = AllowedFolders.of([place / "data"]).list_files(DATASETS)
    assert [path.name for path in found] == ["inside.json", "qa.json", "rows.csv"]
    assert incomplete is None


def test_a_list_says_that_not_all_files_were_searched(tmp_path, monkeypatch):
    monkeypatch.setattr("dokimos._mcp.allowed_folders.MOST_FILES", 2)
    for number in range(3):
        (tmp_path / f"{number}.csv").touch()
    found, incomplete = AllowedFolders.of([tmp_path]).list_files(DATASETS)
    assert [path.name for path in found] == ["0.csv", "1.csv"]
    assert incomplete == "only the first 2 files were searched"


def test_a_home_and_the_root_are_not_allowed_by_themselves(place, monkeypatch):
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.chdir(place)
    with pytest.raises(ToolError, match="--allow FOLDER"):
        AllowedFolders.of([]).find("data/qa.json", DATASETS)
    monkeypatch.chdir(place / "data")
    assert AllowedFolders.of([]).find("qa.json", DATASETS) == place / "data/qa.json"


def test_a_huge_file_is_not_read_to_its_end(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"input": "a", "expectedOutput": "b"}\n' * 20 + "not JSON")
    assert count_examples(rows, 10) == 11
    whole = tmp_path / "whole.json"
    with whole.open("wb") as file:
        file.truncate(65 * 2**20)  # without a block on the disk
    with pytest.raises(ToolError, match="may have at most 64 MiB"):
        count_examples(whole, 10)

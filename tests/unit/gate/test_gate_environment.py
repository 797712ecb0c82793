"""Where things are kept, and what the process says."""

from pathlib import Path

import pytest

from dokimos.gate._gate_environment import (
    GateEnvironment,
    file_stem,
    project_root,
    running_test,
    truthy,
    write_atomically,
)


def surroundings(*command, **environment):
    return GateEnvironment(root=Path("/project"), variables=environment, command=command)


@pytest.mark.parametrize("value", ["true", "TRUE", "1", "yes", " Yes "])
def test_switched_on(value):
    assert truthy(value)


@pytest.mark.parametrize("value", [None, "", "0", "false", "no", "on"])
def test_not_switched_on(value):
    assert not truthy(value)


def test_the_command_of_a_test_names_the_test():
    found = surroundings("/bin/pytest", PYTEST_CURRENT_TEST="tests/test_a.py::test_b (call)")

    assert found.accept_command() == "DOKIMOS_UPDATE_BASELINE=true pytest tests/test_a.py::test_b"


def test_the_command_of_a_script_names_the_script():
    assert surroundings("evals.py", "--fast").accept_command() == (
        "DOKIMOS_UPDATE_BASELINE=true python evals.py --fast"
    )
    assert surroundings("/usr/bin/tool", "a b").accept_command() == "DOKIMOS_UPDATE_BASELINE=true tool 'a b'"


def test_the_command_of_a_module_names_the_module():
    assert surroundings("/x/evals/__main__.py").accept_command().endswith(" -m evals")


def test_paths_in_the_project_are_shown_relative_to_it(tmp_path):
    here = GateEnvironment(root=tmp_path)

    assert here.display_path(tmp_path / "tests" / "b.json") == "tests/b.json"
    assert here.display_path(Path("/elsewhere/b.json")) == "/elsewhere/b.json"


def test_paths_are_shown_as_they_are_typed_where_commands_are(tmp_path):
    below = GateEnvironment(root=tmp_path, start=tmp_path / "service" / "a")
    above = GateEnvironment(root=tmp_path / "service", start=tmp_path)

    assert below.display_path(tmp_path / "tests" / "b.json") == "../../tests/b.json"
    assert above.display_path(tmp_path / "service" / "tests" / "b.json") == "service/tests/b.json"


def test_the_root_is_the_nearest_folder_with_a_pyproject(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("")

    assert project_root(tmp_path / "a" / "b") == tmp_path / "a"


def test_the_command_of_a_test_in_a_group_of_xdist_is_one_that_pytest_finds():
    for found, named in {
        "a@b/test_a.py::test_b@group": "a@b/test_a.py::test_b",
        "test_a.py::test_b[me@home]@group": "test_a.py::test_b[me@home]",
        "test_a.py::test_b[me@home]": "test_a.py::test_b[me@home]",
    }.items():
        assert running_test({"PYTEST_CURRENT_TEST": f"{found} (call)"}) == named


def test_a_name_becomes_a_file_name():
    assert file_stem("rag support v1") == "rag-support-v1"
    assert file_stem("...") == "gate-verdict"


def test_a_path_becomes_a_file_name_that_no_other_path_has():
    assert file_stem("a/b-c.json") != file_stem("a-b/c.json")
    assert file_stem("a/b.json").startswith("a-b.json-")
    assert len(file_stem("folder/" * 100)) < 220


def test_a_gate_goes_by_the_name_of_its_baseline_at_the_top_of_the_repository(tmp_path):
    here = GateEnvironment(root=tmp_path)

    assert here.gate_name(tmp_path / "tests" / "baselines" / "support.v2.json") == "support.v2"


def test_a_gate_elsewhere_goes_by_the_path_of_its_baseline(tmp_path):
    (tmp_path / "top" / ".git").mkdir(parents=True)
    top = GateEnvironment(root=tmp_path / "top")
    service = GateEnvironment(root=tmp_path / "top" / "services" / "a")
    usual = Path("tests") / "baselines" / "support.json"

    assert top.gate_name(top.root / usual) == "support"
    assert service.gate_name(service.root / usual) == "services/a/tests/baselines/support.json"
    assert top.gate_name(top.root / "support.json") == "support.json"
    assert top.gate_name(tmp_path / "support.json") == "../support.json"


def test_a_gate_whose_baselines_are_kept_elsewhere_goes_by_their_names(tmp_path):
    here = GateEnvironment(root=tmp_path / "a", variables={"DOKIMOS_BASELINE_DIR": str(tmp_path / "kept")})

    assert here.gate_name(tmp_path / "kept" / "support.json") == "support"


def test_names_that_differ_in_other_letters_only_have_files_of_their_own():
    first, second = file_stem("質問 v1"), file_stem("回答 v1")

    assert first != second
    assert first.isascii()
    assert first == file_stem("質問 v1")


def test_a_write_that_fails_leaves_no_draft_and_keeps_the_old_file(tmp_path):
    (tmp_path / "folder.json").mkdir()

    with pytest.raises(OSError, match="folder"):
        write_atomically(tmp_path / "folder.json", "x")

    assert [path.name for path in tmp_path.iterdir()] == ["folder.json"]


@pytest.mark.parametrize(
    ("missing", "similar"),
    [("suport", "support"), ("Support", "support"), ("suport.noise", None), ("billing", None)],
)
def test_a_missing_baseline_is_compared_with_those_beside_it(tmp_path, missing, similar):
    for name in ("support.json", "suport.noise.json", "readme.md"):
        (tmp_path / name).touch()

    found = GateEnvironment(root=tmp_path).find_similar_baseline(tmp_path / f"{missing}.json")

    assert (found and found.name) == (similar and f"{similar}.json")


def test_a_missing_baseline_in_a_missing_folder_resembles_none(tmp_path):
    assert GateEnvironment(root=tmp_path).find_similar_baseline(tmp_path / "no" / "support.json") is None

"""The ids of runs on servers, as outputs of a step on GitHub."""

from dokimos.gate._github import write_server_run_ids


def test_the_ids_are_one_output(tmp_path):
    path = tmp_path / "output"
    path.write_text("status=PASS\n")
    write_server_run_ids(("8f14e45f", "c9f0f895"), {"GITHUB_OUTPUT": str(path)})
    assert path.read_text() == "status=PASS\nserver_run_ids=8f14e45f,c9f0f895\n"


def test_an_id_cannot_set_another_output(tmp_path):
    path = tmp_path / "output"
    write_server_run_ids(("a\npassed=true", "\ud800"), {"GITHUB_OUTPUT": str(path)})
    assert not path.exists()
    write_server_run_ids(("a\npassed=true", "b"), {"GITHUB_OUTPUT": str(path)})
    assert path.read_text() == "server_run_ids=b\n"


def test_nothing_is_written_outside_of_a_step_or_without_ids(tmp_path):
    assert write_server_run_ids(("a",), {}) is None
    assert write_server_run_ids((), {"GITHUB_OUTPUT": str(tmp_path / "output")}) is None
    assert list(tmp_path.iterdir()) == []

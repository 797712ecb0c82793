"""Which Python a target names, and how its file becomes a module."""

import json
import sys

import pytest

from dokimos._cli.targets import load_attribute, load_experiment
from dokimos.errors import ConfigurationError, DokimosError

EXPERIMENT = """
from dokimos import Dataset, Example, Experiment
experiment = Experiment(Dataset("d", [Example.of("a", "b")]), lambda question: question, [])
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a Python file into a folder of its own; the path and the modules are as before afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = dict(sys.modules)

    def write_file(name, text, folder="targets"):
        path = tmp_path / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    yield write_file
    sys.modules.update(before)  # what the files added is forgotten after each test


def test_a_file_that_fails_half_way_leaves_no_module(write):
    target = write("half_way.py", "value = 1\nraise RuntimeError('no key')")
    with pytest.raises(ConfigurationError, match="no key"):
        load_experiment(target)
    assert "half_way" not in sys.modules


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        ("KeyboardInterrupt", KeyboardInterrupt),
        ("SystemExit", ConfigurationError),
        ("DokimosError", DokimosError),
    ],
)
def test_whatever_ends_an_import_leaves_no_module(write, failure, error):
    source = f"from dokimos.errors import DokimosError\nraise {failure}('broken')"
    target = write("ended_import.py", source)
    with pytest.raises(error, match="broken"):
        load_experiment(target)
    assert "ended_import" not in sys.modules


def test_a_file_that_no_longer_imports_leaves_its_last_module(write):
    target = write("edited_target.py", "value = 1")
    assert load_attribute(f"{target}:value") == 1
    write("edited_target.py", "raise RuntimeError")
    with pytest.raises(ConfigurationError):
        load_attribute(f"{target}:value")
    assert sys.modules["edited_target"].value == 1


def test_a_file_never_replaces_the_module_of_another_file(write):
    with pytest.raises(ConfigurationError, match=r"another module 'json' \(.*json.*\)\. Rename the file\."):
        load_experiment(write("json.py", EXPERIMENT))
    assert sys.modules["json"] is json


def test_a_file_never_replaces_a_built_in_module(write):
    with pytest.raises(ConfigurationError, match=r"another module 'sys' \(built in\)"):
        load_experiment(write("sys.py", EXPERIMENT))
    assert sys.modules["sys"] is sys


def test_a_file_is_imported_anew_each_time(write):
    target = write("changed_target.py", "value = 1")
    assert load_attribute(f"{target}:value") == 1
    write("changed_target.py", "value = 22")
    assert load_attribute(f"{target}:value") == 22


def test_a_target_that_something_imported_by_name_is_still_a_target(write):
    target = write("imported_target.py", "value = 1")
    user = write("importing_target.py", "from imported_target import value")
    assert load_attribute(f"{user}:value") == 1
    assert load_attribute(f"{target}:value") == 1


def test_two_targets_of_one_name_may_follow_each_other(write):
    first = write("same_name.py", "value = 1", folder="a")
    second = write("same_name.py", "value = 2", folder="b")
    assert load_attribute(f"{first}:value") == 1
    assert load_attribute(f"{second}:value") == 2
    assert load_attribute(f"{first}:value") == 1

"""No contract passes everything: each of its tests is failed by a plugin that is wrong, with its sentence."""

import importlib.util
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path

import pytest

from dokimos.testing import contracts

FILE = Path(__file__).with_name("wrong_plugins.py")


def load_wrong_plugins():
    spec = importlib.util.spec_from_file_location("wrong_plugins", FILE)
    module = sys.modules["wrong_plugins"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: each for name, each in vars(module).items() if name.startswith("Test")}


WRONG = load_wrong_plugins()
CONTRACTS = [getattr(contracts, name) for name in contracts.__all__]


@pytest.fixture(scope="module")
def failures(tmp_path_factory):
    """The sentences with which tests failed, by class and test."""
    report = tmp_path_factory.mktemp("wrong") / "report.xml"
    command = [sys.executable, "-m", "pytest", str(FILE), "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, "--junitxml", str(report)], capture_output=True, text=True, check=False, cwd=FILE.parent
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found = defaultdict(str)
    for case in ET.parse(report).iter("testcase"):
        key = case.get("classname").rpartition(".")[2], case.get("name").partition("[")[0]
        found[key] += "\n".join(f"{each.get('message')} {each.text}" for each in case.iter("failure"))
    return found


def test_every_wrong_plugin_fails_with_the_sentence_that_helps_its_author(failures):
    expected = {(name, test): says for name, each in WRONG.items() for test, says in each.fails.items()}

    assert expected
    assert {key: failures[key] for key, says in expected.items() if says not in failures[key]} == {}


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda each: each.__name__)
def test_every_test_of_a_contract_can_fail(contract):
    failed = {test for each in WRONG.values() if issubclass(each, contract) for test in each.fails}

    assert {name for name in dir(contract) if name.startswith("test_")} - failed == set() or (
        contract is contracts.HttpJudgeContract
        and {name for name in vars(contract) if name.startswith("test_")} <= failed
    )

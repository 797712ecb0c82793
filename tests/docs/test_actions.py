"""Pages and examples use the actions of this repository as they are: their version, inputs and outputs."""

import re
from pathlib import Path

import pytest
import yaml

from dokimos import __version__

ROOT = Path(__file__).parents[2]
ACTIONS = {path.parent.name: path for path in ROOT.glob(".github/actions/*/action.yml")}
USES = re.compile(r"uses: dokimos/dokimos/\.github/actions/(?P<name>[\w-]+)@(?P<ref>\S+)")
PAGES = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.yml"), ROOT / "README.md"]


def uses():
    """Yield the steps of pages and examples that use an action of this repository."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = [text] if page.suffix == ".yml" else re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
        for block in blocks:
            if not USES.search(block):
                continue
            tree = yaml.safe_load(block)
            steps = tree if isinstance(tree, list) else find_steps(tree)
            for step in steps:
                match = USES.search(f"uses: {step.get('uses')}")
                if match is not None:
                    yield page.name, match["name"], match["ref"], step


def find_steps(tree):
    return [step for job in tree["jobs"].values() for step in job["steps"]]


def test_each_action_is_shown_on_a_page():
    assert {name for _, name, _, _ in uses()} == set(ACTIONS)


def test_pages_pin_the_version_that_they_are_about():
    # A tag that is released with these pages: one of an unreleased major version would not exist.
    assert {ref for *_, ref, _ in uses()} == {f"v{__version__}"}


def test_pages_give_inputs_that_exist_and_all_that_are_required():
    for page, name, _, step in uses():
        inputs = yaml.safe_load(ACTIONS[name].read_text(encoding="utf-8"))["inputs"]
        given = set(step.get("with", {}))
        required = {key for key, entry in inputs.items() if entry.get("required")}

        assert given <= set(inputs), page
        assert required <= given, page


@pytest.mark.parametrize(("name", "page"), [("eval-gate", "server-client.md"), ("eval-gate-report", "ci.md")])
def test_the_table_of_a_page_has_all_inputs_and_defaults(name, page):
    text = (ROOT / "docs" / "guide" / page).read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.+?) \|", text, re.MULTILINE))
    action = yaml.safe_load(ACTIONS[name].read_text(encoding="utf-8"))

    assert set(action["inputs"]) <= set(rows)
    for key, entry in action["inputs"].items():
        default = entry.get("default", "")
        if default and "${{" not in default:
            assert rows[key].strip('`"') == default, key
        assert (rows[key] == "required") == bool(entry.get("required")), key
    for key in action["outputs"]:
        assert f"`{key}`" in text, key

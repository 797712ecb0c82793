"""A folder of its own for each suite, with an application in it."""

import textwrap

import pytest

from dokimos.suites import load_suite

APP = """
def echo(text):
    return text


def answer(question):
    known = {"2 + 2": "4", "price": "60.94"}
    return next((value for key, value in known.items() if key in question), "I do not know.")


def with_tools(question):
    calls = [
        {"name": "mcp__sums__subtract", "arguments": {"a": 60.94, "b": "25.14"}},
        {"name": "lookup", "arguments": {"city": "Paris"}},
    ]
    return {"output": question, "tool_calls": calls, "retrieval_context": ["It is in France."]}
"""


class Folder:
    """Writes files and loads suites from them."""

    def __init__(self, path):
        self.path = path

    def write(self, name, text):
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return target

    def suite(self, text, **files):
        """Load a suite; what it lacks of name and agent is put in."""
        body = textwrap.dedent(text).lstrip("\n")
        head = "" if body.startswith("name:") else "name: a suite\n"
        head += "" if "agent:" in body or "instructions:" in body else "agent: app:answer\n"
        return load_suite(self.write("agent.yaml", head + body))

    def run(self, text):
        """Run a suite without keeping anything, and return its result."""
        return self.suite(text).experiment().run(journal=False, progress=False)

    def item(self, text):
        """Run a suite of one case and return what came of it."""
        (item,) = self.run(text).item_results
        return item


@pytest.fixture
def folder(tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    made = Folder(tmp_path / "suite")
    made.write("app.py", APP)
    return made

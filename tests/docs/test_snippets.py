"""Runs every snippet of the documentation, so that none can go stale.

The blocks of a page run in order in one namespace and one temporary folder. `python` blocks are executed,
lines of `console` blocks that start with `$ dokimos` or `$ pytest` are run, and so are the `bash` blocks of
the pages on the server. A comment line before a block changes that: `<!-- not executed: reason -->` leaves it
out, `<!-- file: NAME -->` writes it to a file.

The pages on the server are run against one: its address takes the place of the one that they name.
"""

import ast
import asyncio
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
SERVER_PAGES = [page for page in PAGES if page.name.startswith("server")]
ADDRESS_ON_PAGES = "http://localhost:8080"
OPENING = re.compile(r"^[ \t>]*```+[ \t]*\w", re.MULTILINE)
"""Where any reader would see a block begin, indented or quoted too."""
DIRECTIVE = re.compile(r"<!-- (not executed|file): (.+?) -->\s*\Z")


@dataclass
class Block:
    language: str
    code: str
    line: int
    """Number of the first line of code in the page."""
    skipped: bool = False
    file: str | None = None


def blocks_of(text):
    for match in FENCE.finditer(text):
        directive = DIRECTIVE.search(text, 0, match.start())
        kind, value = directive.groups() if directive else (None, None)
        yield Block(
            language=match[1],
            code=match[2],
            line=text.count("\n", 0, match.start(2)) + 1,
            skipped=kind == "not executed",
            file=value if kind == "file" else None,
        )


def run_page(page, text, folder):
    """Run the blocks of a page and return the names they left."""
    module = types.ModuleType("__page__")
    sys.modules["__page__"] = module  # where typed snippets look their annotations up
    try:
        for block in blocks_of(text):
            run_block(page, block, module.__dict__, folder)
    finally:
        del sys.modules["__page__"]
    return module.__dict__


def run_block(page, block, namespace, folder):
    if block.skipped:
        return
    if block.file:
        target = folder / block.file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block.code, encoding="utf-8")
    elif block.language == "python":
        run_python(page, block, namespace)
    elif block.language == "console":
        run_console(page, block, folder)
    elif block.language == "bash":
        run_script(page, block, folder)


def run_script(page, block, folder):
    outcome = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.code],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    problem = f"{page.name}:{block.line}: exit {outcome.returncode}\n{outcome.stdout}{outcome.stderr}"
    assert outcome.returncode == 0, problem


def run_python(page, block, namespace):
    source = "\n" * (block.line - 1) + block.code
    code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, namespace))
    else:
        exec(code, namespace)


def run_console(page, block, folder):
    lines = block.code.splitlines()
    for number, line in enumerate(lines):
        if not line.startswith(("$ dokimos", "$ pytest")):
            continue
        after = lines[number + 1] if number + 1 < len(lines) else ""
        expected = int(after.removeprefix("# exit ")) if after.startswith("# exit ") else 0
        outcome = run_module(*shlex.split(line, comments=True)[1:], folder=folder)
        assert outcome.returncode == expected, (
            f"{page.name}:{block.line + number}: {line!r} exited with {outcome.returncode}, not {expected}:\n"
            f"{outcome.stdout}{outcome.stderr}"
        )


def run_module(*command, folder):
    # The sources beside this file, also where another copy of the project is installed.
    path = os.pathsep.join((str(folder), str(ROOT / "src")))
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_snippet_of_a_page_runs(page, request, tmp_path, monkeypatch):
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    text = page.read_text(encoding="utf-8")
    code = text
    if page in SERVER_PAGES:
        if shutil.which("curl") is None or shutil.which("bash") is None:
            pytest.skip("needs curl and bash")
        code = text.replace(ADDRESS_ON_PAGES, request.getfixturevalue("live_server"))
        monkeypatch.setenv("DOKIMOS_DATA_DIR", str(tmp_path / "server"))  # of that server

    run_page(page, code, folder)

    found = [block.line - 1 for block in blocks_of(text) if block.language]
    assert found == [text.count("\n", 0, opening.end()) + 1 for opening in OPENING.finditer(text)]


def test_blocks_of_one_page_share_their_names(tmp_path):
    names = run_page(Path("x.md"), "```python\na = 1\n```\n\n```python\nb = a + 1\n```\n", tmp_path)

    assert (names["a"], names["b"]) == (1, 2)


def test_a_failing_snippet_fails_at_its_line_in_the_page(tmp_path):
    with pytest.raises(ZeroDivisionError) as failure:
        run_page(Path("x.md"), "# Title\n\n```python\na = 1\na / 0\n```\n", tmp_path)

    assert failure.traceback[-1].lineno + 1 == 5


def test_a_snippet_may_await(tmp_path):
    text = "```python\nimport asyncio\nx = await asyncio.sleep(0, 3)\n```\n\n```python\ny = x + 1\n```\n"

    names = run_page(Path("x.md"), text, tmp_path)

    assert (names["x"], names["y"]) == (3, 4)


def test_only_a_comment_right_before_it_leaves_a_block_out(tmp_path):
    left_out = "<!-- not executed: needs a key -->\n```python\na = 1 / 0\n```\n"

    assert "a" not in run_page(Path("x.md"), left_out, tmp_path)
    with pytest.raises(ZeroDivisionError):
        run_page(Path("x.md"), left_out + "\n```python\n1 / 0\n```\n", tmp_path)


def test_a_block_can_be_a_file(tmp_path):
    run_page(Path("x.md"), '<!-- file: data/a.json -->\n```json\n{"a": 1}\n```\n', tmp_path)

    assert (tmp_path / "data" / "a.json").read_text() == '{"a": 1}\n'


def test_a_command_with_another_exit_status_fails(tmp_path):
    with pytest.raises(AssertionError, match=r"x\.md:2: .* exited with"):
        run_page(Path("x.md"), "```console\n$ dokimos no-such-command\n```\n", tmp_path)

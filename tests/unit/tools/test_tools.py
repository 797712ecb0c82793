"""The scripts under `tools/`, and the pages for people and programs that contribute."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]


@pytest.fixture
def load_tool(monkeypatch):
    def load(name):
        spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)  # dataclasses look their module up
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def measures(load_tool):
    return load_tool("style_measures")


@pytest.mark.parametrize("name", ["told", "_kept", "decided", "noted_calls", "found", "_left_out"])
def test_names_that_start_with_a_participle_are_counted(measures, name):
    assert measures.is_participle(name)


@pytest.mark.parametrize("name", ["embed", "feed", "seed_rows", "set_name", "parse", "_need", "cut", "red"])
def test_verbs_and_nouns_that_look_like_one_are_not(measures, name):
    assert not measures.is_participle(name)


def test_a_tree_is_measured(measures, tmp_path):
    (tmp_path / "_private.py").write_text(
        '"""Module."""\n# why\n'
        "def told(value: Any, other: int):\n"
        '    """Tell.\n\n    >>> told(1, 2)\n    """\n    return _once(value)\n'
        "def _once(value):\n    return value\n"
    )

    rows = dict(measures.rows(measures.measure(tmp_path)))

    assert rows["functions named by a past participle"] == "50.0 %"
    assert rows["parameters typed bare Any"] == "33.3 %"
    assert rows["private modules"] == rows["public symbols"] == "1"
    assert rows["private helpers called once"] == "100.0 %"
    assert rows["docstrings with an example"] == "50.0 %"
    assert rows["comments per 1,000 lines"] == "100.0"


@pytest.fixture
def words(load_tool):
    load_tool("messages")
    load_tool("style_measures")
    return load_tool("check_words")


def test_words_of_our_own_and_unnatural_idioms_are_found(words, tmp_path):
    folder = tmp_path / "src" / "dokimos"
    folder.mkdir(parents=True)
    (folder / "settled.py").write_text(
        "def kept(call):\n    told = call.wanted\n    raise ValueError(f'{told} is no image of ours')\n"
        "def weighted_mean(values):\n    return 0  # a list is no set\n"
        'class A:\n    """It goes on with\n    what was no map: a map was no list."""\n'
        "    @property\n    def passed(self):\n        return True\n"
    )
    (tmp_path / "README.md").write_text("There is no limit.\n\nIt is no longer so; a map is no list.\n")

    names, idioms = list(words.find_names(tmp_path)), list(words.find_idioms(tmp_path))

    assert [line.split(": ", 1)[0] for line in names] == [
        "src/dokimos/settled.py",
        "src/dokimos/settled.py:1",
        *["src/dokimos/settled.py:2"] * 2,
        "src/dokimos/settled.py:3",
    ]
    assert idioms == [
        "src/dokimos/settled.py:3: 'is no image': write 'not a ...'.",
        "src/dokimos/settled.py:5: 'is no set': write 'not a ...'.",
        "src/dokimos/settled.py:7: 'goes on with': write 'continues with'.",
        "src/dokimos/settled.py:8: 'was no map': write 'not a ...'.",
        "README.md:3: 'is no list': write 'not a ...'.",
    ]


def test_the_glossary_says_where_things_are():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("## The words that we use")[1].split("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| ")][1:]

    assert len(rows) >= 55
    missing = [
        place
        for row in rows
        for place in re.findall(r"`([^`]+)`", row[2])
        if not (ROOT / "src" / "dokimos" / place).exists()
    ]
    assert not missing


def test_the_map_of_the_code_names_what_exists():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "dokimos"
    hops = re.findall(r"`([\w/]+\.py):\s+([\w.]+)`", text)
    sections = re.findall(r"(?ms)^### (\w+)\n(.*?)(?=^##)", text)
    named = [(package, path) for package, part in sections for path in re.findall(r"`([\w/]+\.py)`", part)]
    others = re.findall(r"`([\w/]+/[\w]+\.py)`", text)

    assert len(hops) >= 30
    assert len(named) >= 60
    assert [hop for hop in hops if not _defines(source / hop[0], hop[1])] == []
    assert [(package, path) for package, path in named if not _is_in(source, package, path)] == []
    assert [path for path in others if not any((root / path).exists() for root in (source, ROOT))] == []


def _is_in(source: Path, package: str, path: str) -> bool:
    return any((folder / path).exists() for folder in (source / package, source, ROOT))


def _defines(path: Path, name: str) -> bool:
    if not path.exists():
        return False
    node: ast.AST = ast.parse(path.read_text(encoding="utf-8"))
    for part in name.split("."):
        kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        body = [each for each in ast.iter_child_nodes(node) if isinstance(each, kinds) and each.name == part]
        if not body:
            return False
        node = body[0]
    return True


def test_a_release_needs_a_tag_a_version_and_a_dated_section_that_agree(load_tool):
    release = load_tool("release_check")
    dated = "# Changelog\n\n## [0.2.0] - 2026-12-01\n"

    assert release.find_problems("v0.2.0", "0.2.0", dated) == []
    assert len(release.find_problems("v0.2.1", "0.2.0", dated)) == 1
    assert "no section" in release.find_problems("v0.2.0", "0.2.0", "## [Unreleased]\n")[0]


def test_ci_run_helps_and_refuses_what_it_does_not_know():
    helped = subprocess.run([ROOT / ".ci/run", "--help"], capture_output=True, text=True, timeout=60)
    refused = subprocess.run([ROOT / ".ci/run", "--nonsense"], capture_output=True, text=True, timeout=60)

    assert (helped.returncode, refused.returncode) == (0, 2)
    assert "Usage: .ci/run" in helped.stdout
    assert "Usage: .ci/run" in refused.stderr


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_what_github_reads_is_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


@pytest.mark.parametrize("page", ["AGENTS.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_the_files_that_a_page_names_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|tests|tools|benchmarks|docs|examples)/[\w/.-]+)`", text)
    modules = re.findall(r"`((?:evaluators|judges|exporters|integrations|cli|experiment)/[\w/.-]*)`", text)
    paths = [ROOT / name for name in named] + [ROOT / "src/dokimos" / name for name in modules]

    assert [path for path in paths if not path.exists()] == []


def test_messages_are_listed_with_their_places(load_tool):
    source = (
        "def f(name):\n"
        '    raise ValueError(f"There is no {name!r} " "here." if name else "Nothing is named.")\n'
        '    warn("It is slow today.")\n'
        '    lookup("not a message at all")\n'
        '    option(help="Say what is done.")\n'
    )

    assert list(load_tool("messages").messages(source)) == [
        (2, "There is no {name} here. | Nothing is named."),
        (3, "It is slow today."),
        (5, "Say what is done."),
    ]

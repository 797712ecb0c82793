"""AI agents find each page as Markdown, links that lead somewhere, and skills that say what is true."""

import ast
import json
import posixpath
import re
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path

import click
import pytest

from dokimos._cli.main import COMMANDS, cli

DOCS = Path(__file__).parents[2] / "docs"
LINK = re.compile(r"\]\(([^()\s]+)\)")
CODE = re.compile(r"^(`{3,}).*?^\1|`[^`\n]+`", re.MULTILINE | re.DOTALL)
SKILL = DOCS / "skills" / "dokimos" / "SKILL.md"
COMMAND = re.compile(r"\bdokimos ((?:[a-z][a-z-]*(?: |$))+)?(.*)", re.MULTILINE)


@cache
def anchors_of(path):
    text = path.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


def broken_links(site, path):
    """Yield each link of a file that leads to no file, or to no place in it."""
    text = path.read_text(encoding="utf-8")
    for link in LINK.findall(CODE.sub("", text)):
        if "://" in link:
            continue
        address, _, anchor = link.partition("#")
        target = path if not address else site / posixpath.normpath(path.parent.relative_to(site) / address)
        if not target.is_file() or (anchor and anchor not in anchors_of(target)):
            yield f"{path.relative_to(site)}: {link}"


def test_the_site_has_all_that_agents_read(docs_modules, tmp_path):
    """One test of several things, since the references take seconds to make."""
    with docs_modules("agent_pages", "http_reference") as (agent_pages, http_reference):
        agent_pages.write_agent_pages(tmp_path)
        description, rules = http_reference.describe_server()

    check_twins(tmp_path)
    check_index(tmp_path)
    check_routes(
        http_reference, (tmp_path / "guide" / "http-api.md").read_text(encoding="utf-8"), description, rules
    )


def check_twins(site):
    """Each page has a twin, which lacks nothing and is in both indexes, and no link leads nowhere."""
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"skills/dokimos/SKILL.md"}
    twins = {
        path.relative_to(site).as_posix() for path in site.rglob("*.md") if ".well-known" not in path.parts
    }
    index = (site / "llms.txt").read_text(encoding="utf-8")
    whole = (site / "llms-full.txt").read_text(encoding="utf-8")

    assert twins == {page for page in pages if not page.startswith("_")}
    assert set(LINK.findall(index)) == twins - {"index.md"} | {"llms-full.txt"}
    assert [page for page in twins if f"<!-- {page} -->" not in whole] == []
    assert "`exact_match`" in (site / "guide" / "evaluators.md").read_text(encoding="utf-8")
    assert "### `dokimos.evaluators.ExactMatch`" in (site / "api" / "evaluators.md").read_text(
        encoding="utf-8"
    )
    assert re.search(r"^```\{|^:::", whole, re.MULTILINE) is None
    assert "For AI agents: " in (site / "guide" / "rag.md").read_text(encoding="utf-8").splitlines()[-1]
    files = [*(site / page for page in sorted(twins)), site / "llms.txt"]
    assert [link for file in files for link in broken_links(site, file)] == []
    links = {link.partition("#")[0] for link in LINK.findall(CODE.sub("", whole)) if "://" not in link}
    assert [link for link in links if not (site / link).is_file()] == []


def check_index(site):
    """The index has the form that agents expect: a title, a summary, and groups of links with notes."""
    title, blank, summary, *rest = (site / "llms.txt").read_text(encoding="utf-8").splitlines()

    assert (title, blank, summary[:2]) == ("# dokimos", "", "> ")
    assert {line[:2] for line in rest} == {"", "Ev", "##", "- "}
    lines = [line for line in rest if line.startswith("- ")]
    assert [line for line in lines if not re.fullmatch(r"- \[[^\]]+\]\(\S+\.md\): .{10,}", line)] == []


def check_routes(http_reference, text, description, rules):
    """Each route has a section with its role, its parameters, its body and its answers."""
    sections = dict(re.findall(r"^### ([A-Z]+ `[^`\n]+`)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    routes = {
        f"{method.upper()} `{path}`": (operation, rules[path, method.upper()])
        for path, operations in description["paths"].items()
        for method, operation in operations.items()
    }

    assert set(sections) == set(routes)
    for title, (operation, rule) in routes.items():
        shown = sections[title]
        assert f"Role: {http_reference.ROLES[rule]}." in shown
        names = {each["name"] for each in operation.get("parameters", ())} | set(operation["responses"])
        assert {name for name in names if f"`{name}`" not in shown} == set(), title
        assert ("Body: " in shown) == ("requestBody" in operation), title


def test_a_page_points_agents_to_its_twin_and_to_the_rest(docs_modules):
    with docs_modules("agent_pages") as (agent_pages,):
        context = {"body": "<p>RAG</p>"}
        agent_pages.add_footer(None, "guide/rag", "page.html", context, doctree=object())

    links = re.findall(r'href="([^"]+)"', context["body"])
    assert links == ["rag.md", "../llms.txt", "../llms-full.txt", "../.well-known/skills/index.json"]
    assert 'rel="alternate" type="text/markdown" href="rag.md"' in context["metatags"]


def test_the_indexes_list_the_skill_with_all_its_files(docs_modules, tmp_path):
    with docs_modules("agent_pages") as (agent_pages,):
        agent_pages.write_skills(tmp_path)
    skills = tmp_path / "skills"
    [entry] = json.loads((skills / "index.json").read_text())["skills"]
    [newer] = json.loads((tmp_path / "agent-skills" / "index.json").read_text())["skills"]

    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", entry["name"])
    assert len(entry["description"]) <= 1024
    assert entry["files"] == ["SKILL.md"]
    written = skills / entry["name"] / "SKILL.md"
    assert written.read_bytes() == SKILL.read_bytes()
    assert (tmp_path / "agent-skills" / newer["url"]).resolve() == written
    assert newer["digest"] == f"sha256:{sha256(written.read_bytes()).hexdigest()}"


@pytest.mark.parametrize("path", [SKILL, DOCS / "guide" / "coding-agents.md"], ids=["skill", "prompt"])
def test_each_command_and_option_that_agents_are_told_exists(path):
    code = "\n".join(match[0] for match in CODE.finditer(path.read_text(encoding="utf-8")))
    lines = re.sub(r"\n {3,}", " ", code).replace("`", "\n")
    used = [(words.split(), rest) for words, rest in COMMAND.findall(lines) if words]

    assert len(used) >= 5
    assert {words[0] for words, _ in used} <= set(COMMANDS)
    for words, rest in used:
        command = cli.get_command(click.Context(cli), words[0])
        members = [command, *getattr(command, "commands", {}).values()]  # `gate` and `test` have a usual one
        options = {name for each in members for parameter in each.params for name in parameter.opts}
        options |= {"--help", "--debug"}
        assert set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest)) <= options, words


def test_each_import_in_the_skill_resolves():
    blocks = re.findall(r"^```python\n(.*?)^```", SKILL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    imports = [
        node for block in blocks for node in ast.walk(ast.parse(block)) if isinstance(node, ast.ImportFrom)
    ]
    names = {(node.module, alias.name) for node in imports for alias in node.names if node.module != "evals"}

    assert len(names) >= 6
    assert [(module, name) for module, name in names if not hasattr(import_module(module), name)] == []

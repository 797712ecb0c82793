"""Sphinx extension: what AI agents read, beside the pages: Markdown twins, `llms.txt` and skills."""

import json
import posixpath
import shutil
from hashlib import sha256
from pathlib import Path

import markdown_twins as twins
import yaml

SKILLS = Path(__file__).parent / "skills"
SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"


def setup(app):
    app.connect("html-page-context", add_footer)
    app.connect("build-finished", write_beside_pages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def add_footer(app, name, template, context, doctree):
    """Point agents from each page to its twin, to the index and to the skills."""
    if doctree is None:
        return
    root, own = "../" * name.count("/"), f"{name.rpartition('/')[2]}.md"
    context["metatags"] = (
        f'{context.get("metatags", "")}<link rel="alternate" type="text/markdown" href="{own}">'
    )
    context["body"] += (
        f'<aside class="for-agents">For AI agents: <a href="{own}">this page as Markdown</a>, '
        f'<a href="{root}llms.txt">the index of all pages</a>, '
        f'<a href="{root}llms-full.txt">all in one file</a>, '
        f'<a href="{root}.well-known/skills/index.json">skills</a>.</aside>'
    )


def write_beside_pages(app, error):
    if error is None and app.builder.name == "html":
        address = app.config.html_baseurl
        write_agent_pages(Path(app.outdir), f"{address.rstrip('/')}/" if address else "")


def write_agent_pages(folder, base=""):
    """Write a twin of each page, both indexes of the pages, and the skills.

    Args:
        folder: The root of the site.
        base: Its address, which ends in `/`, for the links of `llms.txt`; without one they are relative.
    """
    texts = {name: twins.make_twin(name) for name in ("index", *twins.page_names())}
    for name, text in texts.items():
        _write(folder / f"{name}.md", text)
    _write(folder / "llms.txt", index_of_pages(texts, base))
    _write(folder / "llms-full.txt", all_pages(texts))
    write_skills(folder / ".well-known")
    _write(folder / ".nojekyll", "")  # some hosts leave out folders that begin with a dot without it


def index_of_pages(texts, base=""):
    """Return `llms.txt`: the name, a summary, and a line for each page."""
    lines = [f"# {twins.title_of(texts['index'])}", "", f"> {_introduction(texts['index'])}", ""]
    lines += [f"Everything in one file: [llms-full.txt]({base}llms-full.txt)", ""]
    group = None
    for name, caption in twins.page_names().items():
        if caption != group:
            group = caption
            lines += [f"## {caption}", ""] if lines[-1] == "" else ["", f"## {caption}", ""]
        text = texts[name]
        lines.append(f"- [{twins.title_of(text)}]({base}{name}.md): {twins.summary_of(text)}")
    return "\n".join(lines) + "\n"


def _introduction(text):
    return " ".join(text.split("\n\n")[1].split())


def all_pages(texts):
    """Return `llms-full.txt`: all pages, whose links lead from its own place."""
    parts = []
    for name, text in texts.items():
        content = text.rpartition("\n\n---\n\n")[0]
        parts.append(f"<!-- {name}.md -->\n\n{twins.change_links(content, _from_root(name))}\n")
    return "\n".join(parts)


def _from_root(name):
    def change(link):
        if "://" in link or link.startswith("mailto:"):
            return link
        path, hash_sign, anchor = link.partition("#")
        at = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else f"{name}.md"
        return f"{at}{hash_sign}{anchor}"

    return change


def write_skills(folder):
    """Write the skills, and their indexes: of `skills` (draft 0.1) and of `agent-skills` (draft 0.2)."""
    entries, links = [], []
    for path in sorted(SKILLS.glob("*/SKILL.md")):
        about = read_front_matter(path)
        files = [
            each.relative_to(path.parent).as_posix()
            for each in sorted(path.parent.rglob("*"))
            if each.is_file()
        ]
        shutil.copytree(path.parent, folder / "skills" / about["name"], dirs_exist_ok=True)
        entries.append({**about, "files": sorted(files, key=lambda name: name != "SKILL.md")})
        digest = f"sha256:{sha256(path.read_bytes()).hexdigest()}"
        link = {"type": "skill-md", "url": f"../skills/{about['name']}/SKILL.md", "digest": digest}
        links.append({**about, **link})
    _write(folder / "skills" / "index.json", json.dumps({"skills": entries}, indent=2))
    _write(folder / "agent-skills" / "index.json", json.dumps({"$schema": SCHEMA, "skills": links}, indent=2))


def read_front_matter(path):
    """Return name and description of a skill."""
    return yaml.safe_load(path.read_text(encoding="utf-8").split("---\n")[1])


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")

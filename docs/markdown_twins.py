"""Turns the source of a page into plain Markdown: generated parts filled in, Sphinx's directives resolved."""

import posixpath
import re
from pathlib import Path

from api_markdown import anchor_pages, describe_block
from generated import fill_parts

HERE = Path(__file__).parent
FENCE = re.compile(
    r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ ]*\n", re.MULTILINE | re.DOTALL
)
DIRECTIVE = re.compile(r"\{([\w-]+)\}\s*(.*)")
CONTAINER = re.compile(r"^:{3,}.*\n\n?", re.MULTILINE)
LABEL = re.compile(r"^\([\w-]+\)=\n", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()([^()\s]+)(?=\))")
OPTION = re.compile(r"^:([\w-]+):[ ]*(.*)$", re.MULTILINE)


def page_names():
    """Return all pages in the order of the navigation, each with the caption of the group it is in."""
    pages = {}
    for caption, entries in toctrees("index"):
        for name in entries:
            _add_page(pages, name, caption)
    return pages


def _add_page(pages, name, caption):
    pages[name] = caption
    for _, entries in toctrees(name):
        for entry in entries:
            _add_page(pages, entry, caption)


def toctrees(name):
    """Return the caption and the pages of each table of contents on a page."""
    blocks = [match for match in FENCE.finditer(read_source(name)) if match["info"].startswith("{toctree}")]
    return [_read_toctree(name, match["body"]) for match in blocks]


def _read_toctree(name, body):
    options = dict(OPTION.findall(body))
    folder = HERE / Path(name).parent
    lines = [line for line in OPTION.sub("", body).split("\n") if line.strip()]
    if "glob" in options:
        paths = [path for line in lines for path in sorted(folder.glob(f"{line}.md"))]
    else:
        paths = [folder / f"{line}.md" for line in lines]
    names = [path.relative_to(HERE).with_suffix("").as_posix() for path in paths]
    return options.get("caption", "").strip('"'), names


def read_source(name):
    return (HERE / f"{name}.md").read_text(encoding="utf-8")


def title_of(text):
    """Return the first heading of a page."""
    return re.search(r"^# (.+)$", text, re.MULTILINE)[1].replace("`", "")


def summary_of(text):
    """Return the first sentence below the first heading, without markup."""
    after = text.partition("\n# ")[2] if not text.startswith("# ") else text
    paragraphs = (part for part in after.split("\n\n")[1:] if re.match(r"(?!```)[A-Za-z`*\[]", part))
    first = " ".join(next(paragraphs, "").split())
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first).replace("`", "").replace("**", "")
    return re.match(r".*?[.:?](?= [A-Z]|$)|.*", plain)[0].rstrip(":")


def make_twin(name):
    """Return the Markdown twin of a page, with a footer that says where the rest is."""
    root = "../" * name.count("/")
    text = _resolve_blocks(name, fill_parts(read_source(name)))
    text = LABEL.sub("", change_links(text, lambda link: _resolve_link(name, link)))
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    return f"{text}\n\n---\n\n{agents_footer(root)}\n"


def agents_footer(root):
    return (
        f"For AI agents: the [index of all pages]({root}llms.txt), "
        f"[all pages in one file]({root}llms-full.txt), and [skills]({root}.well-known/skills/index.json)."
    )


def change_links(text, change):
    """Return a text with another address in each link, except in code."""
    pieces, end = [], 0
    for match in FENCE.finditer(text):
        pieces += [LINK.sub(lambda link: change(link[0]), text[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*pieces, LINK.sub(lambda link: change(link[0]), text[end:])])


def _resolve_link(name, link):
    """Return the address of an object of the API on its page; other links lead to sources already."""
    page = anchor_pages().get(link.removeprefix("#"))
    return link if page is None else f"{relative(page, name)}{link}"


def relative(page, base):
    """Return the address of the twin of a page from that of another; none from the page itself."""
    return "" if page == base else posixpath.relpath(f"{page}.md", posixpath.dirname(base) or ".")


def _resolve_blocks(name, text):
    pieces, end = [], 0
    for match in FENCE.finditer(text):
        pieces.append(CONTAINER.sub("", text[end : match.start()]))
        pieces.append(_resolve_block(name, match))
        end = match.end()
    return "".join([*pieces, CONTAINER.sub("", text[end:])])


def _resolve_block(name, match):
    directive = DIRECTIVE.match(match["info"])
    if directive is None:
        return match[0]
    options = dict(OPTION.findall(match["body"]))
    if directive[1] == "eval-rst":
        return describe_block(match["body"])
    if directive[1] == "toctree":
        return "" if "hidden" in options else _list_pages(name, match["body"])
    if directive[1] == "image":
        return "" if options.get("class") == "only-dark" else f"*Picture: {options['alt']}.*\n"
    raise ValueError(
        f"{name}: the directive {directive[1]} has no Markdown yet; add it to markdown_twins.py."
    )


def _list_pages(name, body):
    _, names = _read_toctree(name, body)
    return "".join(f"- [{title_of(read_source(page))}]({relative(page, name)})\n" for page in names)

"""Describes what the reference of the API documents in Markdown, from the objects themselves."""

import ast
import inspect
import re
import textwrap
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).parent
DIRECTIVE = re.compile(r"^\.\. (auto\w+|py:data):: (\S+)\n((?:[ ]+\S.*\n|\n)*)", re.MULTILINE)
SECTIONS = {"Args:": "Parameters", "Raises:": "Raises", "Returns:": "Returns"}


@cache
def anchor_pages():
    """Return the page of the reference that documents each name."""
    pages = {}
    for path in sorted((HERE / "api").glob("*.md")):
        for kind, name, _ in DIRECTIVE.findall(path.read_text(encoding="utf-8")):
            if kind != "automodule":
                pages[name] = f"api/{path.stem}"
    return pages


def describe_block(body):
    """Return what the directives of a block document as Markdown."""
    return "\n".join(_describe(kind, name, content) for kind, name, content in DIRECTIVE.findall(f"{body}\n"))


def _describe(kind, name, content):
    if kind == "py:data":
        text = re.sub(r":class:`~?([^`]+)`", r"`\1`", textwrap.dedent(content).strip())
        return _entry(name, None, text)
    if kind == "automodule":
        return _describe_module(name)
    if kind == "autodata":
        module, _, attribute = name.rpartition(".")
        return _entry(name, None, dict(_strings_below(_parse_module(module))).get(attribute, ""))
    chosen = re.search(r":members: +(.+)", content)
    return describe_object(name, find_object(name), chosen[1].split(", ") if chosen else None)


def _describe_module(name):
    module = import_module(name)
    entries = [f"### `{name}`\n\n{format_docstring(inspect.getdoc(module) or '')}\n"]
    entries += [describe_object(f"{name}.{each}", getattr(module, each)) for each in module.__all__]
    return "\n".join(entries)


def find_object(name):
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def describe_object(name, value, chosen=None):
    """Return the entry of a class with its documented members, of a function, or of a value."""
    if not inspect.isclass(value):
        return _entry(name, _signature(name, value), inspect.getdoc(value) if callable(value) else "")
    members = [
        f"- `{_member_signature(value, member)}`: {' '.join(text.split())}"
        for member, text in _documented_members(value).items()
        if (member in chosen if chosen else not member.startswith("_"))
    ]
    entry = _entry(name, _signature(name, value), value.__doc__)
    return "\n".join([entry, *members, ""]) if members else entry


def _entry(name, signature, text):
    code = f"```python\n{signature}\n```\n\n" if signature else ""
    return f'<a id="{name}"></a>\n\n### `{name}`\n\n{code}{format_docstring(inspect.cleandoc(text or ""))}\n'


def _signature(name, value):
    short = name.rpartition(".")[2]
    # Evaluators have a `__new__` that takes anything, to explain what is wrong with it.
    called = value.__init__ if is_dataclass(value) else value
    try:
        signature = re.sub(r"^\((self|cls)(, )?", "(", str(inspect.signature(called)))
    except (TypeError, ValueError):
        return None
    plain = re.sub(r"<([\w.]+) object at 0x\w+>|<function ([\w.]+) at 0x\w+>", r"\1\2", signature)
    plain = re.sub(r"(?<=: |> )'([^']*)'", r"\1", plain).replace("<factory>", "...")
    return f"class {short}{plain.removesuffix(' -> None')}" if inspect.isclass(value) else f"{short}{plain}"


def _documented_members(kind):
    """Return what is said of each field, method and property that a class itself has."""
    members = _strings_below_fields(kind)
    for member, value in dict(vars(kind)).items():
        plain = getattr(value, "__func__", value)
        is_documented = inspect.isfunction(plain) or isinstance(value, property)
        if is_documented and getattr(plain, "__doc__", None):
            members[member] = inspect.cleandoc(plain.__doc__).partition("\n\n")[0]
    return members


def _member_signature(kind, member):
    value = inspect.getattr_static(kind, member, None)
    plain = getattr(value, "__func__", value)
    return _signature(member, plain) if inspect.isfunction(plain) else member


def _strings_below_fields(kind):
    definition = _classes_of(kind.__module__).get(kind.__qualname__)
    return dict(_strings_below(definition.body)) if definition else {}


@cache
def _classes_of(module):
    """Return the classes of a module; `inspect.getsource` would parse the module for each of them."""
    statements = _parse_module(module)
    return {each.name: each for each in statements if isinstance(each, ast.ClassDef)}


@cache
def _parse_module(module):
    path = getattr(import_module(module), "__file__", None)
    return ast.parse(Path(path).read_text(encoding="utf-8")).body if path else []


def _strings_below(statements):
    for field, below in pairwise(statements):
        targets = [field.target] if isinstance(field, ast.AnnAssign) else getattr(field, "targets", [])
        is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if is_text and targets and isinstance(targets[0], ast.Name):
            yield targets[0].id, str(below.value.value)


def format_docstring(text):
    """Return a docstring as Markdown: sections as lists, examples as code."""
    parts = re.split(r"(^ *>>>.*?(?:\n *\n|\Z))", text, flags=re.MULTILINE | re.DOTALL)
    parts[1::2] = [f"```python\n{textwrap.dedent(code).strip()}\n```\n\n" for code in parts[1::2]]
    parts[::2] = [_with_lists(part) for part in parts[::2]]
    return "".join(parts).strip() + "\n"


def _with_lists(text):
    lines, inside = [], False
    for line in text.split("\n"):
        if line in SECTIONS or line == "Example:":
            inside = line in SECTIONS
            lines.append(f"**{SECTIONS.get(line, 'Example')}**\n")
        elif inside and (entry := re.match(r" {4}(\S.*?): (?=\S)", line)):
            lines.append(f"- `{entry[1]}`: {line[entry.end() :]}")
        elif inside and line.startswith("    "):
            lines.append(f"  {line.strip()}")
        else:
            inside = inside and not line
            lines.append(line)
    return "\n".join(lines)

"""Sphinx extension: puts the tables of a suite's keys, made from its JSON Schema, where a page asks."""

import json

from generated import add_part

from dokimos.suites._schema import json_schema

MARK = "<!-- suite reference -->"
HEAD = ["| Key | Takes | Default | Meaning |", "|---|---|---|---|"]
ROOT = "The suite"


def setup(app):
    add_part(app, MARK, reference)
    return {"version": "1", "parallel_read_safe": True}


def reference():
    """Return a section for the suite and for each block in it, in the order in which they are met."""
    schema = json_schema()
    sections, waiting, seen = [], [(ROOT, schema)], {ROOT}
    while waiting:
        title, block = waiting.pop(0)
        sections.append(section(title, block))
        for name in blocks_in(block.get("properties", {})):
            if name not in seen:
                seen.add(name)
                waiting.append((name, schema["$defs"][name]))
    return "\n\n".join(sections)


def section(title, block):
    required = block.get("required", [])
    rows = [row(key, value, key in required) for key, value in block.get("properties", {}).items()]
    about = "" if title == ROOT else f"{block.get('description', '')}\n\n"
    takes_parameters = title.endswith("Metric") and block.get("additionalProperties") is True
    more = "\n\nOther keys are parameters of the metric." if takes_parameters else ""
    return f"## {words(title)}\n\n{about}" + "\n".join([*HEAD, *rows]) + more


def row(key, value, required):
    default = "*required*" if required else shown_default(value)
    cells = (f"`{key}`", kind_of(value), default, " ".join(value.get("description", "").split()))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def shown_default(value):
    default = value.get("default")
    return "" if default in (None, [], {}) else f"`{json.dumps(default)}`"


def kind_of(value):
    """Say what a key takes, with links to the blocks."""
    if "$ref" in value:
        return link(value["$ref"])
    if "enum" in value:
        return ", ".join(f"`{option}`" for option in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    options = [one for one in value.get("anyOf", value.get("oneOf", [])) if one.get("type") != "null"]
    if options:
        return " or ".join(dict.fromkeys(map(kind_of, options)))
    if value.get("type") == "array":
        return f"list of {kind_of(value.get('items', {}))}"
    names = {"string": "text", "integer": "whole number", "object": "map", "boolean": "`true` or `false`"}
    return names.get(value.get("type"), value.get("type") or "anything") + bounds(value)


def bounds(value):
    low, high = value.get("minimum"), value.get("maximum")
    if low is not None and high is not None:
        return f" {low} to {high}"
    if low is not None:
        return f", at least {low}"
    return " above 0" if value.get("exclusiveMinimum") == 0 else ""


def link(reference):
    name = reference.rpartition("/")[2]
    return f"[{words(name)}](#{words(name).lower().replace(' ', '-')})"


def words(name):
    """Turn the name of a class into words: ModelBlock is "Model block"."""
    parts = "".join(f" {letter}" if letter.isupper() else letter for letter in name).split()
    return name if " " in name else " ".join([parts[0], *(part.lower() for part in parts[1:])])


def blocks_in(tree):
    """Yield the blocks that a part of the schema refers to."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "$ref":
                yield value.rpartition("/")[2]
            else:
                yield from blocks_in(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from blocks_in(value)

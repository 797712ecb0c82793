"""Sphinx extension: puts the table of evaluators, made from the registry, where a page asks for it."""

from dokimos.evaluators import registry
from dokimos.evaluators._needs import needs_of

MARK = "<!-- evaluator table -->"
HEAD = ["| Name | Class | Purpose | Parameters | Needs | Threshold |", "|---|---|---|---|---|---|"]
COMMON = {"name", "threshold", "evaluation_params", "fail_on_error", "response_path"}


def setup(app):
    app.connect("source-read", insert_table)
    return {"version": "1", "parallel_read_safe": True}


def insert_table(app, name, source):
    if MARK in source[0]:
        source[0] = source[0].replace(MARK, table())


def table():
    return "\n".join([*HEAD, *(row(registry.describe(name)) for name in registry.BUILT_IN)])


def row(doc):
    cells = (
        code(doc.name),
        class_cell(doc),
        purpose_cell(doc),
        ", ".join(code(p.name) for p in doc.parameters if p.name not in COMMON),
        ", ".join(need.name for need in needs_of(doc)),
        threshold_cell(doc),
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def class_cell(doc):
    kind = doc.class_name.rpartition(":")[2]
    return f"[`{kind}`](#dokimos.evaluators.{kind})"


def purpose_cell(doc):
    return " ".join(doc.purpose.split())


def threshold_cell(doc):
    if doc.threshold is None:
        return "none"
    return f"at most {doc.threshold:g}" if doc.lower_is_better else f"at least {doc.threshold:g}"


def code(text):
    return f"`{text}`"

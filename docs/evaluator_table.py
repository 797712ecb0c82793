"""Sphinx extension: puts the table of evaluators, made from the registry, where a page asks for it."""

from generated import add_part

from dokimos.evaluators import registry
from dokimos.evaluators._needs import needs_of

MARK = "<!-- evaluator table -->"
HEAD = ["| Name | Class | Purpose | Parameters | Needs | Threshold |", "|---|---|---|---|---|---|"]
COMMON = {"name", "threshold", "evaluation_params", "fail_on_error", "response_path"}


def setup(app):
    add_part(app, MARK, table)
    return {"version": "1", "parallel_read_safe": True}


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

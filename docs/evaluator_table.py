"""Sphinx extension: puts the table of evaluators, made from the registry, where a page asks for it."""

from generated import add_part
from tables import code
from tables import table as format_table

from dokimos.evaluators import registry
from dokimos.evaluators._needs import needs_of

MARK = "<!-- evaluator table -->"
GROUPS = {
    "For conversations": {"conversation"},
    "For agents and their tools": {"tool calls", "expected calls", "tools", "plan"},
    "For retrieval and RAG": {"contexts", "relevant"},
    "With a judge": {"judge", "judges"},
    "With an expected output": {"expected output"},
    "Of the output or the run alone": set(),
}
"""What evaluators of a group need; an evaluator is in the first group that has something it needs."""
HEAD = ["Name", "Class", "Purpose", "Parameters", "Needs", "Threshold"]
COMMON = {"name", "threshold", "evaluation_params", "fail_on_error", "response_path"}


def setup(app):
    add_part(app, MARK, table)
    return {"version": "1", "parallel_read_safe": True}


def table():
    """Return a table of evaluators for each purpose."""
    rows = {group: [] for group in GROUPS}
    for doc in map(registry.describe, registry.BUILT_IN):
        rows[group_of(doc)].append(row(doc))
    return "\n\n".join(f"### {group}\n\n{format_table(HEAD, found)}" for group, found in rows.items())


def group_of(doc):
    needs = {need.name for need in needs_of(doc)}
    return next((group for group, wanted in GROUPS.items() if needs & wanted), list(GROUPS)[-1])


def row(doc):
    return (
        code(doc.name),
        class_cell(doc),
        doc.purpose,
        ", ".join(code(p.name) for p in doc.parameters if p.name not in COMMON),
        ", ".join(need.name for need in needs_of(doc)),
        threshold_cell(doc),
    )


def class_cell(doc):
    kind = doc.class_name.rpartition(":")[2]
    return f"[`{kind}`](#dokimos.evaluators.{kind})"


def threshold_cell(doc):
    if doc.threshold is None:
        return "none"
    return f"at most {doc.threshold:g}" if doc.lower_is_better else f"at least {doc.threshold:g}"

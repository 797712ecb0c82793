"""Sphinx extension: puts an entry for each evaluator, made from its class, where a page asks for it."""

import evaluator_table
from generated import add_part
from tables import code, table

from dokimos.evaluators import registry
from dokimos.evaluators._needs import CALL_COUNTS, needs_of

MARK = "<!-- evaluator catalogue -->"


def setup(app):
    add_part(app, MARK, catalogue)
    return {"version": "1", "parallel_read_safe": True}


def catalogue():
    """Return the words in which calls are counted, and the entries in the groups of the table."""
    entries = {group: [] for group in evaluator_table.GROUPS}
    for doc in map(registry.describe, registry.BUILT_IN):
        entries[evaluator_table.group_of(doc)].append(entry(doc))
    words = table(["Word", "Meaning"], [(code(word), meaning) for word, meaning in CALL_COUNTS.items()])
    groups = [f"## {group}\n\n" + "\n\n".join(found) for group, found in entries.items()]
    return "\n\n".join([words, *groups])


def entry(doc):
    facts = [
        ("Needs", ", ".join(need.name for need in needs_of(doc)) or "what its parameters say"),
        ("Judge calls", calls_cell(doc)),
        ("Score", score_cell(doc)),
        ("Repeatable", "yes" if doc.deterministic else "no: a model answers"),
        ("Method", doc.method_source),
    ]
    parts = [
        f"### {code(doc.name)}",
        f"{evaluator_table.class_cell(doc)}: {doc.purpose}",
        doc.details,
        table(["", ""], facts),
        f"```pycon\n{doc.example}\n```",
    ]
    return "\n\n".join(part for part in parts if part)


def calls_cell(doc):
    formula, _, special = doc.judge_calls.partition("; ")
    return f"{code(formula)}; {special}" if special else code(formula)


def score_cell(doc):
    low, high = doc.score_range
    better = "lower" if doc.lower_is_better else "higher"
    passes = evaluator_table.threshold_cell(doc)
    decides = "informational" if passes == "none" else f"passes with {passes}"
    return f"{low:g} to {high:g}, {better} is better; {decides} by default"

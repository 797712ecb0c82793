"""The tables of evaluators have all of them, each where readers would look for it."""

import pytest

from dokimos.evaluators import registry


@pytest.fixture
def sections(docs_modules):
    with docs_modules("evaluator_table") as (evaluator_table,):
        table = evaluator_table.table()
    return dict(part.split("\n", 1) for part in table.removeprefix("### ").split("\n### "))


def test_each_evaluator_stands_once_in_the_group_of_its_purpose(sections):
    names = {
        group: [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")]
        for group, text in sections.items()
    }

    assert sorted(name for group in names.values() for name in group) == sorted(registry.BUILT_IN)
    assert all(names.values())
    assert "exact_match" in names["With an expected output"]
    assert "faithfulness" in names["For retrieval and RAG"]
    assert "regex" in names["Of the output or the run alone"]

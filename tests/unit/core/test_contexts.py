"""What was retrieved: under which names it is found, and how its chunks are read."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from dokimos._core import contexts
from dokimos._core.contexts import ContextsEntry, are_ids, chunks_of, document_id, items_of
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import EvaluationError


@dataclass
class LangChainDocument:
    page_content: str
    id: str | None = None
    metadata: dict = field(default_factory=dict)


@dataclass
class LlamaIndexNode:
    text: str
    node_id: str


@dataclass
class NodeWithScore:
    node: LlamaIndexNode
    score: float


@dataclass
class HaystackDocument:
    content: str
    id: str


NAMES = sorted(contexts.NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", ["outputs", "metadata", "inputs"])
def test_every_name_is_understood_everywhere(name, place):
    parts = {place: {name: ["a chunk", "another chunk"]}}
    case = EvalTestCase(parts.get("inputs", {}), parts.get("outputs", {}), metadata=parts.get("metadata", {}))

    assert case.contexts == ("a chunk", "another chunk")


def test_what_the_application_gave_comes_before_the_data_set():
    case = EvalTestCase({"contexts": "i i"}, {"retrieved": "o o"}, metadata={"contexts": "m m"})

    assert case.contexts == ("o o",)
    assert EvalTestCase({"contexts": "i i"}, {"context": None}, metadata={"context": "m m"}).contexts == (
        "m m",
    )
    assert EvalTestCase({"contexts": "i i"}).contexts == ("i i",)
    assert EvalTestCase().contexts is None


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (contexts.OF_ANSWERS, ["contexts", "context", "retrievalContext"]),
        (contexts.OF_RETRIEVERS, ["contexts", "retrievalContext", "retrieval_context"]),
        (contexts.OF_RANKINGS, ["retrieved", "contexts", "retrievalContext"]),
    ],
)
def test_of_several_names_the_order_decides(names, first):
    outputs = {name: f"text of {name}" for name in NAMES}

    for name in first:
        assert EvalTestCase({}, outputs).find_contexts(names).key == name
        del outputs[name]


def test_an_empty_list_is_a_retriever_that_found_nothing():
    assert EvalTestCase({}, {"contexts": []}, metadata={"contexts": ["m"]}).contexts == ()


def test_ids_are_passed_over_where_texts_are_needed():
    case = EvalTestCase({}, {"retrieved": ["d1", "d2"]}, metadata={"context": ["A text."]})

    assert case.contexts == ("A text.",)
    assert EvalTestCase({}, {"retrieved": ["d1", 7]}).contexts is None
    assert case.find_contexts(contexts.OF_RANKINGS, texts=False).value == ["d1", "d2"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(["d1", 7], True), ("doc-1", True), ([{"id": "a", "score": 0.1}], True), ([], False),
     (["two words"], False), (["東京の天気"], False), (["a", "two words"], False), ([1.5], False),
     ([{"id": "a", "text": "x"}], False)],
)  # fmt: skip
def test_ids_are_told_from_texts(value, expected):
    assert are_ids(value) is expected


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("one chunk", ["one chunk"]),
        (["a", {"text": "b"}, {"content": "c"}, {"page_content": "d"}, None], ["a", "b", "c", "d", ""]),
        ({"text": "b", "score": 0.5}, ["b"]),
        ([], []),
        ((), []),
        ([["a", "b"], ["c"]], ["a", "b", "c"]),
        ([("a", 0.5), ["b", 1]], ["a", "b"]),
        ([(LangChainDocument("a"), 0.1), LangChainDocument("b")], ["a", "b"]),
        ([NodeWithScore(LlamaIndexNode("a", "n1"), 0.2)], ["a"]),
        ([{"node": {"text": "a", "node_id": "n"}, "score": 0.2}], ["a"]),
        (LangChainDocument("a"), ["a"]),
        ('["a", "b"]', ["a", "b"]),
        ('[{"text": "a"}]', ["a"]),
        ("[1, 2]", ["[1, 2]"]),
        ("[not JSON", ["[not JSON"]),
        ("[" * 5000, ["[" * 5000]),
        ([{"title": "T", "body": "B"}], ['{"title":"T","body":"B"}']),
        ([""], [""]),
        (["\N{SNOWMAN} \ud800"], ["\N{SNOWMAN} \ud800"]),
    ],
)
def test_chunks_are_texts_documents_and_lists_of_them(value, texts):
    assert [chunk.text for chunk in chunks_of(ContextsEntry("outputs", "contexts", value))] == texts


def test_a_hundred_thousand_chunks_are_read():
    assert len(EvalTestCase({}, {"contexts": [{"text": "x y"}] * 100_000}).contexts) == 100_000


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"id": "d1", "text": "x"}, "d1"),
        ({"id": 7}, "7"),
        (LangChainDocument("x", id="d2"), "d2"),
        (LlamaIndexNode("x", "n1"), "n1"),
        (HaystackDocument("x", "h1"), "h1"),
        (LangChainDocument("x"), None),
        ("text", None),
        ({"id": {"odd": 1}}, None),
    ],
)
def test_the_id_of_a_document_is_found(document, name):
    assert document_id(document) == name


@pytest.mark.parametrize("value", [7, True, 1.5, b"ab", {"user": "premium"}, object()])
def test_what_is_not_a_text_a_document_or_a_list_is_an_error_that_says_where(value):
    with pytest.raises(EvaluationError, match=r"'metadata.context' must be a text, a document or a list of"):
        items_of(ContextsEntry("metadata", "context", value))
    with pytest.raises(EvaluationError, match=r"metadata\.context"):
        _ = EvalTestCase(metadata={"context": value}).contexts


def test_ids_without_texts_are_an_error_where_texts_are_needed():
    with pytest.raises(EvaluationError, match=r"'outputs\.contexts' has ids without texts"):
        _ = EvalTestCase({}, {"contexts": [{"id": "a", "score": 0.9}]}).contexts

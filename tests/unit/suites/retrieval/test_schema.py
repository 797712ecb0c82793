"""The blocks of the tools that search documents."""

import pytest
from pydantic import ValidationError

from dokimos.suites._retrieval.schema import HierarchicalDocumentTool, VectorstoreTool

EVERY_VECTORSTORE_KEY = {
    "name": "kb",
    "description": "Search it.",
    "type": "vectorstore",
    "defer_loading": False,
    "source": "docs",
    "vector_field": ["title", "content"],
    "meta_fields": ["source"],
    "chunk_size": 1024,
    "chunk_overlap": 128,
    "embedding_model": "text-embedding-3-small",
    "embedding_dimensions": 256,
    "database": {"provider": "qdrant", "url": "http://localhost:6333"},
    "top_k": 7,
    "min_similarity_score": 0.3,
    "record_path": "data.items",
    "record_prefix": "record_",
    "meta_prefix": "meta_",
    "id_field": "id",
    "field_separator": " | ",
    "delimiter": ";",
}
EVERY_HIERARCHICAL_KEY = {
    "name": "law",
    "description": "Search it.",
    "type": "hierarchical_document",
    "defer_loading": True,
    "source": "docs/*.md",
    "chunking_strategy": "token",
    "max_chunk_tokens": 400,
    "chunk_overlap": 20,
    "document_domain": "us_legislative",
    "max_subsection_depth": 2,
    "search_mode": "hybrid",
    "top_k": 3,
    "min_score": 0.1,
    "semantic_weight": 0.4,
    "keyword_weight": 0.4,
    "exact_weight": 0.2,
    "rrf_k": 20,
    "contextual_embeddings": False,
    "context_max_tokens": 60,
    "context_concurrency": 3,
    "context_model": {"provider": "openai", "name": "m"},
    "extract_definitions": True,
    "extract_cross_references": False,
    "enable_reranking": True,
    "reranker_model": {"provider": "openai", "name": "m"},
    "embedding_model": "m",
    "database": "a-named-store",
    "keyword_index": {"provider": "opensearch", "endpoint": "http://x", "index_name": "i"},
}


def test_every_key_of_the_reference_is_accepted():
    store = VectorstoreTool.model_validate(EVERY_VECTORSTORE_KEY)
    law = HierarchicalDocumentTool.model_validate(EVERY_HIERARCHICAL_KEY)

    assert store.vector_fields == ("title", "content")
    assert (store.least_score, law.least_score) == (0.3, 0.1)
    assert store.list_ignored_keys() == ["database"]
    assert law.list_ignored_keys() == [
        "database", "keyword_index", "document_domain", "max_subsection_depth", "context_max_tokens",
        "context_concurrency", "context_model", "extract_definitions", "enable_reranking", "reranker_model",
    ]  # fmt: skip


def test_the_usual_values_are_those_of_the_reference():
    store = VectorstoreTool.model_validate({"name": "kb", "source": "docs"})
    law = HierarchicalDocumentTool.model_validate({"name": "law", "source": "docs"})

    assert (store.chunk_size, store.chunk_overlap, store.top_k, store.search_mode) == (512, 0, 5, "semantic")
    assert (law.max_chunk_tokens, law.chunk_overlap, law.top_k, law.search_mode) == (800, 50, 10, "hybrid")
    assert store.list_ignored_keys() == law.list_ignored_keys() == []


def test_a_local_database_is_nothing_to_complain_about():
    block = {"name": "kb", "source": "docs", "database": {"provider": "in-memory"}}

    assert VectorstoreTool.model_validate(block).list_ignored_keys() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sorce": "x"}, r"there is no key 'sorce'\. Did you mean 'source'"),
        ({"top_k": 0}, "1 to 100"),
        ({"top_k": 101}, "1 to 100"),
        ({"min_similarity_score": 1.5}, "0 to 1"),
        ({"chunk_overlap": 512}, r"chunk_overlap must be smaller than chunk_size \(512\), not 512"),
        ({"source": " "}, "must not be blank"),
        ({"database": {"provider": "qdrnt"}}, "qdrant"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    with pytest.raises(ValidationError, match=message):
        VectorstoreTool.model_validate({"name": "kb", "source": "docs", **change})


def test_weights_must_sum_to_one_where_they_are_used():
    block = {"name": "law", "source": "docs", "semantic_weight": 0.9}
    with pytest.raises(ValidationError, match=r"must sum to 1, not 1\.4"):
        HierarchicalDocumentTool.model_validate(block)

    assert (
        HierarchicalDocumentTool.model_validate({**block, "search_mode": "semantic"}).semantic_weight == 0.9
    )

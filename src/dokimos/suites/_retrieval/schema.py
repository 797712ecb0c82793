"""What a suite file may say about the tools that search documents."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, SecretStr, model_validator

from dokimos.suites._metric_schema import Block, ModelBlock, Share, Text
from dokimos.suites._tool_block import ToolBlock

IN_MEMORY: Final = "in-memory"
_WEIGHTS: Final = ("semantic_weight", "keyword_weight", "exact_weight")

SearchMode = Literal["semantic", "keyword", "exact", "hybrid"]


class Database(Block):
    """A vector database; accepted for old files, because every collection has a file of its own."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    provider: Literal[
        "postgres", "azure-ai-search", "qdrant", "weaviate", "chromadb", "faiss", "azure-cosmos-mongo",
        "azure-cosmos-nosql", "sql-server", "pinecone", "redis-hashset", "redis-json", "in-memory",
        "sqlite-vec",
    ]  # fmt: skip
    """Accepted for old files; has no effect."""
    connection_string: SecretStr | None = None
    """Accepted for old files; has no effect."""


class KeywordIndex(Block):
    """A keyword index; accepted for old files, because every collection has its own."""

    provider: Literal["in-memory", "opensearch"] = "in-memory"
    """Accepted for old files; has no effect."""
    endpoint: Text | None = None
    """Accepted for old files; has no effect."""
    index_name: Text | None = None
    """Accepted for old files; has no effect."""
    username: str | None = None
    """Accepted for old files; has no effect."""
    password: SecretStr | None = None
    """Accepted for old files; has no effect."""
    api_key: SecretStr | None = None
    """Accepted for old files; has no effect."""
    verify_certs: bool = True
    """Accepted for old files; has no effect."""
    timeout_seconds: Annotated[int, Field(ge=1, le=120)] = 10
    """Accepted for old files; has no effect."""


class RetrievalTool(ToolBlock):
    """What both tools that search documents have in common."""

    source: Text
    """A file, a folder with everything below it, or a pattern such as `docs/*.md`, relative to the suite."""
    embedding_model: Text | None = None
    """What turns texts into vectors: a model, `provider:model`, or your own function as `file.py:embed`."""
    embedding_dimensions: Annotated[int, Field(gt=0, le=10_000)] | None = None
    """The length of the vectors, if the model can shorten them."""
    database: Database | Text | None = None
    """Accepted for old files; has no effect."""

    without_effect: ClassVar[tuple[str, ...]] = ()
    """Keys that are accepted for old files."""

    def list_ignored_keys(self) -> list[str]:
        """Name the keys that the file gives or switches on and that have no effect here."""
        database = self.database
        # These two mean what is done anyway, so there is nothing to warn of.
        local = isinstance(database, Database) and database.provider in (IN_MEMORY, "sqlite-vec")
        ignored = ["database"] if database is not None and not local else []
        return ignored + [key for key in self.without_effect if getattr(self, key)]


class VectorstoreTool(RetrievalTool):
    """Searches documents, or the records of a CSV or JSON file, by meaning."""

    type: Literal["vectorstore"] = Field(
        default="vectorstore", description="Documents that are searched by meaning."
    )
    chunk_size: Annotated[int, Field(gt=0)] = 512
    """The most characters of a passage."""
    chunk_overlap: Annotated[int, Field(ge=0)] = 0
    """The most characters that a passage repeats of the previous one."""
    top_k: Annotated[int, Field(ge=1, le=100)] = 5
    """The most passages of a search."""
    min_similarity_score: Share | None = None
    """The lowest score of a passage, from 0 to 1."""
    vector_field: Text | Annotated[list[Text], Field(min_length=1)] | None = None
    """The fields of a record that are searched; all by default."""
    meta_fields: list[Text] | None = None
    """The fields of a record that are returned with its passage; by default those that are not searched."""
    id_field: Text | None = None
    """The field that identifies a record; its number by default."""
    field_separator: str = "\n"
    """What is put between the searched fields of a record."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """What separates the fields of a CSV file; detected by default."""
    record_path: Text | None = None
    """Where the list of records is in a JSON file, such as `data.items`."""
    record_prefix: str | None = None
    """Put before the names of the searched fields."""
    meta_prefix: str | None = None
    """Put before the names of the fields that a passage carries."""

    @model_validator(mode="after")
    def _overlap_fits(self) -> VectorstoreTool:
        _check_overlap(self.chunk_overlap, self.chunk_size, "chunk_size")
        return self

    @property
    def vector_fields(self) -> tuple[str, ...] | None:
        """The fields of a record that are searched, None for all."""
        fields = self.vector_field
        return None if fields is None else (fields,) if isinstance(fields, str) else tuple(fields)

    @property
    def search_mode(self) -> SearchMode:
        return "semantic"

    @property
    def least_score(self) -> float | None:
        return self.min_similarity_score

    def indexing(self) -> dict[str, Any]:
        """Return all that decides what is in the collection, besides the documents and the embedder."""
        keys = (
            "type", "chunk_size", "chunk_overlap", "vector_field", "meta_fields", "id_field",
            "field_separator", "delimiter", "record_path", "record_prefix", "meta_prefix",
        )  # fmt: skip
        return {key: getattr(self, key) for key in keys}


class HierarchicalDocumentTool(RetrievalTool):
    """Searches documents by section: each passage has the path of the headings above it."""

    type: Literal["hierarchical_document"] = Field(
        default="hierarchical_document", description="Documents that are searched by section."
    )
    chunking_strategy: Literal["structure", "token"] = "structure"
    """Whether documents are divided at headings, or only by length."""
    max_chunk_tokens: Annotated[int, Field(ge=100, le=2000)] = 800
    """The most tokens of a passage, estimated from words and characters."""
    chunk_overlap: Annotated[int, Field(ge=0, le=200)] = 50
    """The most tokens that a passage repeats of the previous one in its section."""
    search_mode: SearchMode = "hybrid"
    """By meaning, by words (BM25), by the exact phrase, or by all three."""
    top_k: Annotated[int, Field(ge=1, le=100)] = 10
    """The most passages of a search."""
    min_score: Share | None = None
    """The lowest score of a passage, from 0 to 1."""
    semantic_weight: Share = 0.5
    """The weight of the ranking by meaning in a hybrid search."""
    keyword_weight: Share = 0.3
    """The weight of the ranking by words."""
    exact_weight: Share = 0.2
    """The weight of the ranking by exact phrase."""
    rrf_k: Annotated[int, Field(ge=1)] = 60
    """The constant of reciprocal rank fusion; a larger one makes first places count less."""
    contextual_embeddings: bool = True
    """Whether the headings above a passage are embedded with it."""
    keyword_index: KeywordIndex | None = None
    """Accepted for old files; has no effect."""
    document_domain: (
        Literal["none", "us_legislative", "au_legislative", "academic", "technical", "legal_contract"] | None
    ) = None
    """Accepted for old files; has no effect."""
    max_subsection_depth: Annotated[int, Field(ge=1)] | None = None
    """Accepted for old files; has no effect."""
    context_max_tokens: Annotated[int, Field(ge=50, le=200)] | None = None
    """Accepted for old files; has no effect."""
    context_concurrency: Annotated[int, Field(ge=1, le=50)] | None = None
    """Accepted for old files; has no effect."""
    context_model: ModelBlock | None = None
    """Accepted for old files; has no effect."""
    extract_definitions: bool | None = None
    """Accepted for old files; has no effect."""
    extract_cross_references: bool | None = None
    """Accepted for old files; has no effect."""
    enable_reranking: bool | None = None
    """Accepted for old files; has no effect."""
    reranker_model: ModelBlock | None = None
    """Accepted for old files; has no effect."""

    without_effect: ClassVar[tuple[str, ...]] = (
        "keyword_index", "document_domain", "max_subsection_depth", "context_max_tokens",
        "context_concurrency", "context_model", "extract_definitions", "extract_cross_references",
        "enable_reranking", "reranker_model",
    )  # fmt: skip

    @model_validator(mode="after")
    def _weights_fit(self) -> HierarchicalDocumentTool:
        _check_overlap(self.chunk_overlap, self.max_chunk_tokens, "max_chunk_tokens")
        total = sum(getattr(self, name) for name in _WEIGHTS)
        if self.search_mode == "hybrid" and abs(total - 1) > 1e-6:
            raise ValueError(f"{', '.join(_WEIGHTS)} must sum to 1, not {total:g}.")
        return self

    @property
    def least_score(self) -> float | None:
        return self.min_score

    def indexing(self) -> dict[str, Any]:
        """Return all that decides what is in the collection, besides the documents and the embedder."""
        keys = ("type", "chunking_strategy", "max_chunk_tokens", "chunk_overlap", "contextual_embeddings")
        return {key: getattr(self, key) for key in keys}


def _check_overlap(overlap: int, size: int, name: str) -> None:
    if overlap >= size:
        raise ValueError(f"chunk_overlap must be smaller than {name} ({size}), not {overlap}.")

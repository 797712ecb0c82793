"""What a suite file may say about the tools that search documents."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from dokimos.suites._metric_schema import Block, ModelBlock, Share, Text
from dokimos.suites._tool_block import ToolBlock

IN_MEMORY: Final = "in-memory"
_WEIGHTS: Final = ("semantic_weight", "keyword_weight", "exact_weight")

SearchMode = Literal["semantic", "keyword", "exact", "hybrid"]


class Database(BaseModel):
    """A vector database; accepted for old files, since every collection is kept in a file of its own."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True, defer_build=True)

    provider: Literal[
        "postgres", "azure-ai-search", "qdrant", "weaviate", "chromadb", "faiss", "azure-cosmos-mongo",
        "azure-cosmos-nosql", "sql-server", "pinecone", "redis-hashset", "redis-json", "in-memory",
        "sqlite-vec",
    ]  # fmt: skip
    connection_string: SecretStr | None = None


class KeywordIndex(Block):
    """An index of words; accepted for old files, since every collection has its own."""

    provider: Literal["in-memory", "opensearch"] = "in-memory"
    endpoint: Text | None = None
    index_name: Text | None = None
    username: str | None = None
    password: SecretStr | None = None
    api_key: SecretStr | None = None
    verify_certs: bool = True
    timeout_seconds: Annotated[int, Field(ge=1, le=120)] = 10


class RetrievalTool(ToolBlock):
    """What both tools that search documents have in common."""

    source: Text
    """A file, a folder with all that is below it, or a pattern such as `docs/*.md`, relative to the suite."""
    embedding_model: Text | None = None
    """What turns texts into vectors: a model, `provider:model`, or a function of yours as `file.py:embed`."""
    embedding_dimensions: Annotated[int, Field(gt=0, le=10_000)] | None = None
    """How long the vectors are, where the model can make them shorter."""
    database: Database | Text | None = None
    """Accepted for old files; has no effect."""

    without_effect: ClassVar[tuple[str, ...]] = ()
    """Keys that are accepted for old files."""

    def list_ignored_keys(self) -> list[str]:
        """Name the keys that the file gives or switches on and that have no effect here."""
        database = self.database
        # These two mean what is done anyway, so there is nothing to warn of.
        local = isinstance(database, Database) and database.provider in (IN_MEMORY, "sqlite-vec")
        found = ["database"] if database is not None and not local else []
        return found + [key for key in self.without_effect if getattr(self, key)]


class VectorstoreTool(RetrievalTool):
    """Searches documents, or the records of a CSV or JSON file, by meaning."""

    type: Literal["vectorstore"] = "vectorstore"
    chunk_size: Annotated[int, Field(gt=0)] = 512
    """Characters of a chunk, at most."""
    chunk_overlap: Annotated[int, Field(ge=0)] = 0
    """Characters that a chunk repeats of the one before it, at most."""
    top_k: Annotated[int, Field(ge=1, le=100)] = 5
    min_similarity_score: Share | None = None
    """The score that a passage must reach, 0..1."""
    vector_field: Text | Annotated[list[Text], Field(min_length=1)] | None = None
    """The fields of a record that are searched; all of them unless given."""
    meta_fields: list[Text] | None = None
    """The fields of a record that its passage carries; all that are not searched unless given."""
    id_field: Text | None = None
    """The field that tells records apart; their number unless given."""
    field_separator: str = "\n"
    """What stands between the searched fields of a record."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """What separates the fields of a CSV file; found out unless given."""
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
    """Searches documents whose headings are kept: each chunk has the path of headings above it."""

    type: Literal["hierarchical_document"] = "hierarchical_document"
    chunking_strategy: Literal["structure", "token"] = "structure"
    """Whether headings divide the documents, or their length alone."""
    max_chunk_tokens: Annotated[int, Field(ge=100, le=2000)] = 800
    """Tokens of a chunk, at most; estimated from words and characters."""
    chunk_overlap: Annotated[int, Field(ge=0, le=200)] = 50
    """Tokens that a chunk repeats of the one before it in its section, at most."""
    search_mode: SearchMode = "hybrid"
    """By meaning, by words, by the exact phrase, or by all three."""
    top_k: Annotated[int, Field(ge=1, le=100)] = 10
    min_score: Share | None = None
    """The score that a passage must reach, 0..1."""
    semantic_weight: Share = 0.5
    keyword_weight: Share = 0.3
    exact_weight: Share = 0.2
    rrf_k: Annotated[int, Field(ge=1)] = 60
    """How little the very first ranks count for more, when rankings are joined."""
    contextual_embeddings: bool = True
    """Whether the headings above a chunk are embedded with it."""
    keyword_index: KeywordIndex | None = None
    """Accepted for old files; has no effect."""
    document_domain: (
        Literal["none", "us_legislative", "au_legislative", "academic", "technical", "legal_contract"] | None
    ) = None
    max_subsection_depth: Annotated[int, Field(ge=1)] | None = None
    context_max_tokens: Annotated[int, Field(ge=50, le=200)] | None = None
    context_concurrency: Annotated[int, Field(ge=1, le=50)] | None = None
    context_model: ModelBlock | None = None
    extract_definitions: bool | None = None
    extract_cross_references: bool | None = None
    enable_reranking: bool | None = None
    reranker_model: ModelBlock | None = None

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

"""What a suite file may say: every block as a pydantic model, from which its JSON Schema comes too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    BeforeValidator,
    Field,
    SecretStr,
    StringConstraints,
    field_validator,
    model_validator,
)

from dokimos._core.contexts import NAMES, RETRIEVAL_CONTEXT, document_text
from dokimos._core.keys import CONTEXTS
from dokimos._core.yaml_scalars import read_boolean
from dokimos.suites._metric_schema import (
    CALLABLE,
    URL,
    AnyMetric,
    Block,
    EmbeddingProvider,
    ModelBlock,
    Text,
)
from dokimos.suites._optimizer_schema import OptimizerBlock
from dokimos.suites._tool_schema import MOST_TOOLS, AnyTool

MOST_FILES: Final = 10


class FileInput(Block):
    """A file that goes to the agent with the input."""

    path: Text | None = None
    url: Text | None = None
    type: Literal["image", "pdf", "text", "excel", "word", "powerpoint", "csv"]
    description: str | None = None
    pages: list[Annotated[int, Field(gt=0)]] | None = None
    sheet: str | None = None
    range: str | None = None
    cache: bool | None = None

    @model_validator(mode="after")
    def _one_source(self) -> FileInput:
        if (self.path is None) == (self.url is None):
            raise ValueError("a file has either a path or a url.")
        return self


class ExpectedTool(Block):
    """A tool that has to be called."""

    name: Text
    args: dict[str, Any] | None = None
    """Of arguments a value, {one_of: [...]} for several accepted ones, {optional: {one_of: [...]}} where it
    may be left out, or a matcher (fuzzy, regex, contains, range, not); {literal: ...} is a value that looks
    like one of these. Other arguments are not looked at."""
    count: Annotated[int, Field(ge=1)] = 1
    """The least number of calls that match."""
    max_count: Annotated[int, Field(ge=0)] | None = None
    """The greatest number of calls that match."""
    match: Literal["substring", "exact"] = "substring"
    """How the name is compared; a substring lets prefixes such as `mcp__server__` pass."""


def _expand_tool_name(value: object) -> Any:
    return {"name": value} if isinstance(value, str) else value


def _tool_list(value: object) -> Any:
    return {"tools": value} if isinstance(value, list) else value


class ExpectedTools(Block):
    """The tools that have to be called in a turn; a bare list is `tools`."""

    tools: list[Annotated[ExpectedTool, BeforeValidator(_expand_tool_name)]] = Field(default_factory=list)
    exact: bool = False
    """Whether there may be no other calls."""
    ordered: bool = False
    """Whether they have to be called in this order."""


def _context_list(value: object) -> Any:
    return [value] if isinstance(value, str | Mapping) else value


def _context_text(value: object) -> Any:
    text = document_text(value) if isinstance(value, Mapping) else None
    return value if text is None else text


_Contexts: TypeAlias = Annotated[
    list[Annotated[str, BeforeValidator(_context_text)]], BeforeValidator(_context_list)
]
_OTHER_NAMES: Final = NAMES - {CONTEXTS, RETRIEVAL_CONTEXT}


class RetrievedContexts(Block):
    """What a retriever found, where the suite says it and not the agent."""

    contexts: _Contexts | None = None
    """The texts that a retriever found, instead of those that the agent gives."""
    retrieval_context: _Contexts | None = None
    """Another name of contexts."""

    @model_validator(mode="before")
    @classmethod
    def _one_name(cls, value: object) -> Any:
        """Read contexts under any of their names; two of them are a contradiction."""
        if not isinstance(value, Mapping):
            return value
        given_names = [key for key in value if key in NAMES and value[key] is not None]
        if len(given_names) > 1:
            raise ValueError(f"{' and '.join(map(str, given_names))} are the same thing; give one of them.")
        return {CONTEXTS if key in _OTHER_NAMES else key: part for key, part in value.items()}

    @property
    def all_contexts(self) -> tuple[str, ...] | None:
        """The texts under either name, None where there are none."""
        return tuple(self.contexts or self.retrieval_context or ()) or None


class Turn(RetrievedContexts):
    """One thing that is said to the agent, and what is expected of its reply."""

    input: Text
    ground_truth: Text | dict[str, Any] | list[Any] | None = None
    expected_tools: Annotated[ExpectedTools, BeforeValidator(_tool_list)] | None = None
    forbidden_tools: list[Text] = Field(default_factory=list)
    files: Annotated[list[FileInput], Field(max_length=MOST_FILES)] = Field(default_factory=list)
    evaluations: list[AnyMetric] | None = None
    """Metrics instead of those of the case or suite; an empty list means none."""
    turn_config: dict[str, Any] = Field(default_factory=dict)
    """Whatever code graders want to know."""


_ONLY_ON_TURNS: Final = (
    "input", "ground_truth", "expected_tools", "forbidden_tools", "files", CONTEXTS, RETRIEVAL_CONTEXT,
    "turn_config",
)  # fmt: skip


class TestCase(RetrievedContexts):
    """One test: a single input, or the turns of a conversation."""

    __test__ = False  # for pytest, which takes classes of this name for tests

    name: Text | None = None
    input: Text | None = None
    ground_truth: Text | dict[str, Any] | list[Any] | None = None
    expected_tools: Annotated[ExpectedTools, BeforeValidator(_tool_list)] | None = None
    forbidden_tools: list[Text] = Field(default_factory=list)
    files: Annotated[list[FileInput], Field(max_length=MOST_FILES)] = Field(default_factory=list)
    evaluations: list[AnyMetric] | None = None
    turn_config: dict[str, Any] = Field(default_factory=dict)
    turns: Annotated[list[Turn], Field(min_length=1)] | None = None
    tags: list[str] = Field(default_factory=list)
    skip: Annotated[bool | Text, BeforeValidator(read_boolean)] = False
    """Leave the case out; a text says why."""
    repeats: Annotated[int, Field(ge=1)] = 1
    metadata: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_style(self) -> TestCase:
        if self.turns is None and self.input is None:
            raise ValueError("a case has either an input or turns; this one has neither.")
        given_names = [
            key for key in _ONLY_ON_TURNS if self.turns is not None and key in self.model_fields_set
        ]
        if given_names:
            raise ValueError(
                f"a case with turns has no {', '.join(given_names)} of its own; put it into the turns."
            )
        return self

    @property
    def steps(self) -> list[Turn]:
        """The turns; a single input is one."""
        if self.turns is not None:
            return self.turns
        # Not validated again: they were, as fields of the case.
        values = {key: getattr(self, key) for key in (*_ONLY_ON_TURNS, "evaluations")}
        return [Turn.model_construct(**values)]


class Evaluations(Block):
    """The metrics of all cases that name none of their own."""

    model: ModelBlock | None = None
    """The judge of metrics without one of their own."""
    metrics: Annotated[list[AnyMetric], Field(min_length=1)]
    optimizer: OptimizerBlock | None = None
    """How `dokimos test optimize` looks for better parameters and instructions."""


class Instructions(Block):
    """What the declared agent is told."""

    inline: Text | None = None
    file: Text | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Instructions:
        if (self.inline is None) == (self.file is None):
            raise ValueError("instructions are either inline or in a file.")
        return self


def _agent(value: object) -> Any:
    if not isinstance(value, str):
        return value
    return {"url": value} if value.startswith(("http://", "https://")) else {"callable": value}


class Agent(Block):
    """An application of your own under test; a bare text is a URL or a callable."""

    function: Annotated[str, StringConstraints(pattern=CALLABLE)] | None = Field(
        default=None, alias="callable", description="module:attribute or file.py:attribute."
    )
    params: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the callable; of a class, those of its constructor."""
    url: Annotated[str, StringConstraints(pattern=URL)] | None = None
    """Where JSON is posted to."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    output_path: Text | None = None
    """Where the reply is in the JSON answer, such as `choices[0].text`."""
    command: Text | Annotated[list[Text], Field(min_length=1)] | None = None
    """A program that reads the input and prints its reply."""
    format: Literal["text", "json"] = "text"
    """What a command reads and prints: the bare input and reply, or JSON as with a URL."""

    @model_validator(mode="after")
    def _one_kind(self) -> Agent:
        kinds = [self.function, self.url, self.command]
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError("an agent is one of callable, url and command.")
        if self.url is None and self.headers:
            raise ValueError("headers are for an agent with a url.")
        if self.function is None and self.params:
            raise ValueError("params are for an agent that is a callable.")
        return self


class BudgetBlock(Block):
    """What a run may spend, the calls of agent and judges together; it ends when it is spent."""

    max_cost_usd: Annotated[float, Field(ge=0)] | None = None
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    max_calls: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _require_limit(self) -> BudgetBlock:
        if all(limit is None for limit in (self.max_cost_usd, self.max_tokens, self.max_calls)):
            raise ValueError("a budget needs max_cost_usd, max_tokens or max_calls.")
        return self


class Execution(Block):
    """How the suite is run."""

    file_timeout: Annotated[float, Field(gt=0)] | None = None
    llm_timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds that the agent may take for one reply; 60 unless given."""
    download_timeout: Annotated[float, Field(gt=0)] | None = None
    cache_enabled: bool | None = None
    cache_dir: str | None = None
    verbose: bool | None = None
    quiet: bool | None = None
    parallel_test_cases: Annotated[int, Field(ge=1)] | None = None
    retries: Annotated[int, Field(ge=0)] | None = None
    """How often a case whose agent failed is repeated."""
    max_turns: Annotated[int, Field(ge=1)] | None = None
    """How often the declared agent may ask its model for one reply; 20 unless given."""
    budget: BudgetBlock | None = None


class SuiteFile(Block):
    """A whole suite."""

    name: Text
    description: Text | None = None
    author: Text | None = None
    agent: Annotated[Agent, BeforeValidator(_agent)] | None = None
    model: ModelBlock | None = None
    """The declared agent's model, and the judge where no other is named."""
    instructions: Instructions | None = None
    response_format: dict[str, Any] | str | None = None
    tools: Annotated[list[AnyTool], Field(max_length=MOST_TOOLS)] = Field(default_factory=list)
    evaluations: Evaluations | None = None
    test_cases: list[TestCase] = Field(default_factory=list)
    execution: Execution = Field(default_factory=Execution)
    test_cases_file: str | list[str] | None = None
    """Files with the cases instead: YAML, JSON, JSONL or CSV."""
    include: str | list[str] | None = None
    """Files whose content stands under this one's."""
    observability: Any = None
    deployment: Any = None
    embedding_provider: EmbeddingProvider | None = None
    """What turns texts into vectors: a model of a provider, or a function of yours as `file.py:embed`."""
    claude: Any = None
    openai: Any = None

    @field_validator("test_cases", mode="before")
    @classmethod
    # `test_cases:` with nothing below it is None in YAML.
    def _no_cases(cls, value: object) -> Any:
        return [] if value is None else value

    @field_validator("tools")
    @classmethod
    def _unique(cls, tools: list[AnyTool]) -> list[AnyTool]:
        names = [tool.name for tool in tools]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two tools are called {', '.join(map(repr, twice))}.")
        return tools

    @model_validator(mode="after")
    def _something_to_run(self) -> SuiteFile:
        if self.agent is None and (self.model is None or self.instructions is None):
            raise ValueError(
                "say what is tested: agent: (a callable, URL or command), or model: and instructions:."
            )
        return self


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a suite file, for editors."""
    from dokimos.suites._field_descriptions import add_descriptions

    schema = add_descriptions(SuiteFile.model_json_schema(by_alias=True), SuiteFile)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}

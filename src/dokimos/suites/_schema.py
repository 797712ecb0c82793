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
    """A file that is sent to the agent with the input."""

    path: Text | None = None
    """The file, relative to the file that names it; or give a `url`."""
    url: Text | None = None
    """Where the file is downloaded from."""
    type: Literal["image", "pdf", "text", "excel", "word", "powerpoint", "csv"]
    """The format of the file."""
    description: str | None = None
    """Text about the file for the agent and for judges."""
    pages: list[Annotated[int, Field(gt=0)]] | None = None
    """The pages of a PDF, or slides, counted from 1; all of them by default."""
    sheet: str | None = None
    """The sheet of a workbook; all of them by default."""
    range: str | None = None
    """The cells of a sheet, such as `A1:C10`."""
    cache: bool | None = None
    """Whether a download is kept for later runs."""

    @model_validator(mode="after")
    def _one_source(self) -> FileInput:
        if (self.path is None) == (self.url is None):
            raise ValueError("a file has either a path or a url.")
        return self


class ExpectedTool(Block):
    """A tool that has to be called."""

    name: Text
    """The tool's name, or a part of it."""
    args: dict[str, Any] | None = None
    """What the arguments have to be: a value, `{one_of: [...]}` for several accepted ones, a matcher
    (`fuzzy`, `regex`, `contains`, `range`, `not`), `{optional: ...}` around these if the argument may be
    missing, or `{literal: ...}` for a value that looks like one of these. Other arguments do not matter."""
    count: Annotated[int, Field(ge=1)] = 1
    """The smallest number of matching calls."""
    max_count: Annotated[int, Field(ge=0)] | None = None
    """The largest number of matching calls; no limit by default."""
    match: Literal["substring", "exact"] = "substring"
    """How the name is compared: `substring` allows prefixes such as `mcp__server__`."""


def _expand_tool_name(value: object) -> Any:
    return {"name": value} if isinstance(value, str) else value


def _tool_list(value: object) -> Any:
    return {"tools": value} if isinstance(value, list) else value


class ExpectedTools(Block):
    """The tools that have to be called in a turn; a list alone is `tools`."""

    tools: list[Annotated[ExpectedTool, BeforeValidator(_expand_tool_name)]] = Field(default_factory=list)
    """The calls that are expected."""
    exact: bool = False
    """Whether other calls are forbidden."""
    ordered: bool = False
    """Whether the tools have to be called in this order."""


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
    """The retrieved chunks for RAG metrics, instead of those that the agent returns."""
    retrieval_context: _Contexts | None = None
    """Another name for `contexts`."""

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
    """One input of a conversation, and what is expected of its reply."""

    input: Text
    """What the user says."""
    ground_truth: Text | dict[str, Any] | list[Any] | None = None
    """The expected reply."""
    expected_tools: Annotated[ExpectedTools, BeforeValidator(_tool_list)] | None = None
    """The tools that have to be called."""
    forbidden_tools: list[Text] = Field(default_factory=list)
    """Names, or parts of names, of tools that must not be called."""
    files: Annotated[list[FileInput], Field(max_length=MOST_FILES)] = Field(default_factory=list)
    """Files that are sent with the input, up to 10."""
    evaluations: list[AnyMetric] | None = None
    """Metrics that replace those of the case or suite; an empty list means none."""
    turn_config: dict[str, Any] = Field(default_factory=dict)
    """Anything that code graders need."""


_ONLY_ON_TURNS: Final = (
    "input", "ground_truth", "expected_tools", "forbidden_tools", "files", CONTEXTS, RETRIEVAL_CONTEXT,
    "turn_config",
)  # fmt: skip


class TestCase(RetrievedContexts):
    """One test: a single input, or the turns of a conversation."""

    __test__ = False  # for pytest, which takes classes of this name for tests

    name: Text | None = None
    """The name in reports."""
    input: Text | None = None
    """The question to the agent; or give `turns`."""
    ground_truth: Text | dict[str, Any] | list[Any] | None = None
    """The expected reply."""
    expected_tools: Annotated[ExpectedTools, BeforeValidator(_tool_list)] | None = None
    """The tools that have to be called."""
    forbidden_tools: list[Text] = Field(default_factory=list)
    """Names, or parts of names, of tools that must not be called."""
    files: Annotated[list[FileInput], Field(max_length=MOST_FILES)] = Field(default_factory=list)
    """Files that are sent with the input, up to 10."""
    evaluations: list[AnyMetric] | None = None
    """Metrics that replace those of the suite; an empty list means none."""
    turn_config: dict[str, Any] = Field(default_factory=dict)
    """Anything that code graders need."""
    turns: Annotated[list[Turn], Field(min_length=1)] | None = None
    """The turns of a conversation, instead of `input`."""
    tags: list[str] = Field(default_factory=list)
    """What `--tags` selects cases by."""
    skip: Annotated[bool | Text, BeforeValidator(read_boolean)] = False
    """Whether the case is skipped; a text is the reason."""
    repeats: Annotated[int, Field(ge=1)] = 1
    """How often the case is run."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Anything that reports should show."""

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
    """The metrics of all cases that have none of their own."""

    model: ModelBlock | None = None
    """The judge of metrics that name none."""
    metrics: Annotated[list[AnyMetric], Field(min_length=1)]
    """The metrics, each with a `type`."""
    optimizer: OptimizerBlock | None = None
    """How `dokimos test optimize` searches for better parameters and instructions."""


class Instructions(Block):
    """The instructions of the declared agent."""

    inline: Text | None = None
    """The text; or give a `file`."""
    file: Text | None = None
    """A file with the text, relative to the suite; its front matter is not sent."""

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
    """An application of your own; a text alone is a URL or a callable."""

    function: Annotated[str, StringConstraints(pattern=CALLABLE)] | None = Field(
        default=None, alias="callable", description="module:attribute or file.py:attribute."
    )
    params: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments: of a function with each call, of a class for its constructor."""
    url: Annotated[str, StringConstraints(pattern=URL)] | None = None
    """The endpoint to which JSON is posted."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Headers of the request, such as a key; never stored."""
    output_path: Text | None = None
    """Where the reply is in the JSON answer, such as `choices[0].text`."""
    command: Text | Annotated[list[Text], Field(min_length=1)] | None = None
    """A program that reads the input and prints its reply."""
    format: Literal["text", "json"] = "text"
    """Whether a command reads and prints plain text, or JSON like an endpoint."""

    @model_validator(mode="after")
    def _one_kind(self) -> Agent:
        kinds = [self.function, self.url, self.command]
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError("an agent has exactly one of callable, url and command.")
        if self.url is None and self.headers:
            raise ValueError("headers are for an agent with a url.")
        if self.function is None and self.params:
            raise ValueError("params are for an agent that is a callable.")
        return self


class BudgetBlock(Block):
    """What a run may spend, agent and judges together; it ends when the budget is spent."""

    max_cost_usd: Annotated[float, Field(ge=0)] | None = None
    """The most dollars."""
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    """The most tokens, in and out."""
    max_calls: Annotated[int, Field(ge=0)] | None = None
    """The most calls of models."""

    @model_validator(mode="after")
    def _require_limit(self) -> BudgetBlock:
        if all(limit is None for limit in (self.max_cost_usd, self.max_tokens, self.max_calls)):
            raise ValueError("a budget needs max_cost_usd, max_tokens or max_calls.")
        return self


class Execution(Block):
    """How the suite is run."""

    file_timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds for reading one file; 30 by default."""
    llm_timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds for one reply of the agent; 60 by default."""
    download_timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds for downloading one file; 30 by default."""
    cache_enabled: bool | None = None
    """Whether downloads and collections are kept for later runs; they are by default."""
    cache_dir: str | None = None
    """The folder for that; `.dokimos/cache` by default."""
    verbose: bool | None = None
    """Whether replies are printed too."""
    quiet: bool | None = None
    """Whether only the summary is printed."""
    parallel_test_cases: Annotated[int, Field(ge=1)] | None = None
    """How many cases run at once; 1 by default."""
    retries: Annotated[int, Field(ge=0)] | None = None
    """How often a case whose agent failed is repeated."""
    max_turns: Annotated[int, Field(ge=1)] | None = None
    """How often the declared agent may call its model for one reply; 20 by default."""
    budget: BudgetBlock | None = None
    """What the run may spend."""


class SuiteFile(Block):
    """A whole suite."""

    name: Text
    """The name of the suite in reports."""
    description: Text | None = None
    """Text about the suite, for reports."""
    author: Text | None = None
    """Who wrote the suite."""
    experiment: Text | None = Field(None, description="The experiment of its runs; by default the name.")
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Anything that runs should keep; `matrix` names the parameters of a grid of suites."""
    agent: Annotated[Agent, BeforeValidator(_agent)] | None = None
    """The application under test; without it, the suite declares an agent with `model`, `instructions` and
    `tools`."""
    model: ModelBlock | None = None
    """The declared agent's model, and the judge if no other is named."""
    instructions: Instructions | None = None
    """The declared agent's instructions."""
    response_format: dict[str, Any] | str | None = None
    """A JSON Schema of the declared agent's reply, or the name of a file with one."""
    tools: Annotated[list[AnyTool], Field(max_length=MOST_TOOLS)] = Field(default_factory=list)
    """The declared agent's tools."""
    evaluations: Evaluations | None = None
    """The metrics."""
    test_cases: list[TestCase] = Field(default_factory=list)
    """The cases."""
    execution: Execution = Field(default_factory=Execution)
    """How the suite is run."""
    test_cases_file: str | list[str] | None = None
    """Files with the cases, instead of `test_cases`: YAML, JSON, JSONL or CSV."""
    include: str | list[str] | None = None
    """Files that are merged into this one; keys of this one win."""
    observability: Any = None
    """Accepted for old files; has no effect."""
    deployment: Any = None
    """Accepted for old files; has no effect."""
    embedding_provider: EmbeddingProvider | None = None
    """What turns texts into vectors: a model, or your own function as `file.py:embed`."""
    claude: Any = None
    """Accepted for old files; only its `max_turns` is used."""
    openai: Any = None
    """Accepted for old files; only its `max_turns` is used."""

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
            raise ValueError(
                f"two tools are called {', '.join(map(repr, twice))}; give each a name of its own."
            )
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

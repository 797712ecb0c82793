"""What a suite file may say about models and metrics, as pydantic models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    SecretStr,
    StringConstraints,
    Tag,
    ValidationError,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from dokimos._core.constraints import Bounds, bounds_of, collect_bounds, describe_requirement
from dokimos.suites._problems import suggest

CALLABLE: Final = r"^[^:\s]+(\.py)?:[\w.]+$"
GRADER: Final = r"^[\w.]+:[\w.]+$"
TOOL_NAME: Final = r"^[0-9A-Za-z_]+$"
URL: Final = r"^https?://\S+$"
_NOT_BLANK: Final = r"\S"

Text = Annotated[str, StringConstraints(strip_whitespace=False, min_length=1, pattern=_NOT_BLANK)]
"""Text that is not blank."""
Share = Annotated[float, Field(ge=0, le=1)]


class Block(BaseModel):
    """A map in the file; a key that it does not have is refused with the nearest one."""

    # Validators are built when a block is first used: a suite needs few of the blocks there are.
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @model_validator(mode="wrap")
    @classmethod
    def _with_hints(cls, value: object, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError as error:
            details = [cls._explain_error(detail) for detail in error.errors()]
            raise ValidationError.from_exception_data(cls.__name__, details) from None

    @classmethod
    def _explain_error(cls, detail: Any) -> InitErrorDetails:
        """Return a validation error in our own words; outer blocks pass the words of inner ones on."""
        message, kind = f"this {describe_requirement(detail, cls._bounds(detail))}", detail["type"]
        # An inner block has worded the fault already: pydantic passes its error through each outer block.
        if inner := detail.get("ctx", {}).get("message"):
            message = inner
        elif kind == "extra_forbidden" and len(detail["loc"]) == 1:
            message = cls._explain_unknown_key(detail["loc"][0])
        elif kind == "literal_error":
            kind, message = "choice", _choice(detail)
        elif kind in _KINDS:
            kind, message = "kind", detail["msg"] + suggest(_type_in(detail["input"]), _KINDS[kind])
        elif kind == "string_pattern_mismatch":
            kind, message = "pattern", _pattern(detail)
        elif kind == "string_too_short":
            kind, message = "blank", "this must not be blank."
        elif kind in ("value_error", "assertion_error"):
            message = detail["msg"].removeprefix("Value error, ")
        elif message.startswith("this must "):
            kind = TEXT_WANTED if kind == "string_type" else "shape"
            message = f"{message}, not {detail['input']!r:.60}."
        error = PydanticCustomError(kind, "{message}", {"message": message})
        return InitErrorDetails(type=error, loc=detail["loc"], input=detail["input"])

    @classmethod
    def _explain_unknown_key(cls, key: object) -> str:
        names = [field.alias or name for name, field in cls.model_fields.items()]
        return f"there is no key {key!r}.{suggest(key, names)} Keys: {', '.join(names)}."

    @classmethod
    def _bounds(cls, detail: Any) -> Bounds | None:
        """Return all limits of the number that is at fault."""
        names = {field.alias or name: field for name, field in cls.model_fields.items()}
        field = names.get(str(detail["loc"][0])) if detail["loc"] else None
        return (
            None if field is None else bounds_of(field.metadata) or collect_bounds(field.annotation, detail)
        )


def _choice(detail: Mapping[str, Any]) -> str:
    expected = str(detail.get("ctx", {}).get("expected", ""))
    options = [part.strip().strip("'") for part in expected.replace(" or ", ", ").split(",")]
    suggestion = suggest(detail["input"], options).strip()
    must = f"this must be {expected}, not {detail['input']!r:.60}."
    return f"{suggestion} {must[0].upper()}{must[1:]}" if suggestion else must


_KINDS: Final = {
    "metric_type": ("standard", "geval", "rag", "code", "evaluator"),
    "tool_type": ("function", "mcp", "prompt", "vectorstore", "hierarchical_document"),
}
TEXT_WANTED: Final = "text_wanted"
"""The kind of the error where something else than a text is given."""
_FORMS: Final = {
    _NOT_BLANK: "must not be blank",
    CALLABLE: "must be written as module:name, file.py:name or a URL",
    GRADER: "must be written as module.path:callable",
    TOOL_NAME: "must consist of the letters A to Z, digits and _",
    URL: "must begin with http:// or https://",
}
"""What a text has to be, by the pattern that it does not match."""


def _type_in(value: object) -> Any:
    return value.get("type") if isinstance(value, Mapping) else value


def _pattern(detail: Mapping[str, Any]) -> str:
    pattern = str(detail["ctx"]["pattern"])
    form = _FORMS.get(pattern, f"must match {pattern}")
    return f"{detail['input']!r:.60} {form}."


class ModelBlock(Block):
    """A model of a provider."""

    provider: Literal["openai", "azure_openai", "anthropic", "ollama"]
    """The provider of the model."""
    name: Text
    """The model; for Azure, the deployment."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """The sampling temperature; 0 for a judge by default."""
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    """The most tokens of a reply."""
    top_p: Share | None = None
    """The nucleus that is sampled from."""
    endpoint: Text | None = None
    """The root of the API, the same as `base_url`."""
    base_url: Text | None = None
    """The root of the API of any compatible server."""
    api_key: SecretStr | None = None
    """The key; the provider's environment variable by default."""
    api_version: str | None = None
    """The version of the API, for Azure."""
    auth_provider: str | None = None
    """Accepted for old files; has no effect."""

    @model_validator(mode="after")
    def _one_address(self) -> ModelBlock:
        if self.endpoint and self.base_url and self.endpoint != self.base_url:
            raise ValueError("endpoint and base_url say the same thing; give one of them.")
        if self.provider == "azure_openai" and not (self.endpoint or self.base_url):
            raise ValueError("azure_openai needs the endpoint of its resource.")
        return self


EmbeddingProvider = Annotated[
    Annotated[ModelBlock, Tag("model")] | Annotated[Text, Tag("name")],
    Discriminator(lambda value: "name" if isinstance(value, str) else "model"),
]
"""A model that embeds, or the name of an embedder such as `file.py:embed`."""


class Metric(Block):
    """What all metrics have in common."""

    name: Text | None = None
    """The name of the results."""
    threshold: Share | None = None
    """The score to reach. A metric without one is informational, unless its verdict is yes or no."""
    enabled: bool = True
    """Whether the metric is evaluated."""
    fail_on_error: bool = False
    """Whether an error of this metric makes the case errored; by default it is a warning if another metric
    gave a verdict."""
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds that one evaluation may take."""
    timeout_ms: Annotated[float, Field(gt=0)] | None = None
    """The same in milliseconds."""
    retry_on_failure: Annotated[int, Field(ge=1, le=3)] | None = None
    """How often an evaluation that errored is repeated."""
    model: ModelBlock | None = None
    """The judge of this metric, instead of `evaluations.model` and the agent's model."""
    ground_truth: Text | dict[str, Any] | list[Any] | None = None
    """The expected reply of this metric, instead of that of the case or turn."""
    response_path: Text | None = None
    """Evaluate this value in a JSON reply, such as `items[0].price`."""


StandardName = Literal[
    "numeric", "equality", "f1_score", "bleu", "rouge", "meteor", "contains", "regex", "json_schema",
    "structural_match", "chrf", "levenshtein", "embedding_similarity", "latency", "cost",
    "groundedness", "relevance", "coherence", "fluency", "safety",
]  # fmt: skip


class StandardMetric(Metric):
    """A metric that is computed; it has parameters of its own beside the common keys."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    type: Literal["standard"] = "standard"
    """A metric that is computed."""
    metric: StandardName
    """Which metric."""
    scale: Any = None
    """Accepted for old files; scores are always from 0 to 1."""
    custom_prompt: Any = None
    """Accepted for old files; has no effect."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The metric's own parameters."""
        return dict(self.model_extra or {})


class GEvalMetric(Metric):
    """Criteria in natural language, judged by a model."""

    type: Literal["geval"] = "geval"
    """Criteria in natural language."""
    name: Text
    """The name of the results."""
    criteria: Text
    """What the judge should look for."""
    evaluation_steps: list[Text] | None = None
    """The steps that the judge should follow; it writes them itself by default."""
    evaluation_params: (
        Annotated[
            list[
                Literal[
                    "input",
                    "actual_output",
                    "expected_output",
                    "context",
                    "contexts",
                    "retrieval_context",
                    "inputs",
                    "outputs",
                    "expected_outputs",
                ]
            ],
            Field(min_length=1),
        ]
        | None
    ) = None
    """What the judge sees; only `actual_output` by default."""
    strict_mode: bool = False
    """Whether the only scores are 0 and 1."""


class RagMetric(Metric):
    """The quality of retrieval, or of an answer from retrieved chunks, judged by a model."""

    type: Literal["rag"] = "rag"
    """A metric of retrieval, or of an answer from retrieved chunks."""
    metric_type: Literal[
        "faithfulness", "answer_relevancy", "contextual_relevancy", "contextual_precision",
        "contextual_recall",
    ]  # fmt: skip
    """Which metric."""
    include_reason: bool = True
    """Whether the judge also writes a reason."""


class CodeMetric(Metric):
    """A Python function that scores a turn."""

    type: Literal["code"] = "code"
    """A Python function."""
    grader: Annotated[str, StringConstraints(pattern=GRADER)]
    """The function, as `module.path:callable`."""
    blocking: bool = True
    """Whether a sync grader is called in a thread; `false` keeps it in the thread of the run."""
    serial: bool = False
    """Whether all calls of a sync grader use the same thread, one after another."""
    thresholds: Annotated[dict[str, Share | None], Field(min_length=1)] | None = None
    """For a grader that returns several scores: thresholds by key. Keys that are not listed use
    `threshold`."""


class EvaluatorMetric(Metric):
    """Any evaluator that `dokimos evaluators` lists."""

    type: Literal["evaluator"] = "evaluator"
    """Any evaluator."""
    evaluator: Text = Field(alias="name", description="The evaluator's name in the registry.")
    name: Text | None = Field(default=None, alias="display_name")
    params: dict[str, Any] = Field(default_factory=dict)
    """The evaluator's parameters."""


_FAMILIES: Final = {"metric": "standard", "metric_type": "rag", "grader": "code", "criteria": "geval"}


def _family(value: object) -> str | None:
    if isinstance(value, Metric):
        return str(getattr(value, "type", ""))
    if not isinstance(value, Mapping):
        return None
    type_name = value.get("type")
    if type_name is None:
        return next((family for key, family in _FAMILIES.items() if key in value), None)
    return type_name if isinstance(type_name, str) else None


AnyMetric = Annotated[
    Annotated[StandardMetric, Tag("standard")]
    | Annotated[GEvalMetric, Tag("geval")]
    | Annotated[RagMetric, Tag("rag")]
    | Annotated[CodeMetric, Tag("code")]
    | Annotated[EvaluatorMetric, Tag("evaluator")],
    Discriminator(
        _family,
        custom_error_type="metric_type",
        custom_error_message=(
            "invalid metric type; valid types are standard (with metric: "
            "numeric, equality, f1_score, bleu, rouge, meteor, contains, regex, json_schema, "
            "structural_match, chrf, levenshtein, embedding_similarity, latency, cost), geval (with name and "
            "criteria), rag (with metric_type: faithfulness, answer_relevancy, contextual_relevancy, "
            "contextual_precision, contextual_recall), code (with grader: module.path:callable), evaluator "
            "(with name and params)."
        ),
    ),
]

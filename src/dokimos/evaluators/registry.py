"""The lazy table of evaluators: nothing is imported before it is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from dokimos._runtime.start_collector import start_collector
from dokimos.errors import ConfigurationError
from dokimos.evaluators._setting_names import describe_missing, is_required

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from dokimos.evaluators._base import Evaluator
    from dokimos.evaluators._parameters import EvaluatorDoc

__all__ = [
    "build",
    "describe",
    "find",
    "name_of",
    "names",
    "nearest",
    "register",
    "schema",
    "settable_fields",
]

T = TypeVar("T", bound="Evaluator")

ENTRY_POINTS: Final = "dokimos.evaluators"
"""The entry point group of packages that bring evaluators: `name = "module:Class"`."""

BUILT_IN: Final[dict[str, str]] = {
    "exact_match": "dokimos.evaluators._text:ExactMatch",
    "equality": "dokimos.evaluators._text:Equality",
    "regex": "dokimos.evaluators._text:Regex",
    "contains": "dokimos.evaluators._text:Contains",
    "length": "dokimos.evaluators._resource_limits:Length",
    "levenshtein": "dokimos.evaluators._text:Levenshtein",
    "numeric": "dokimos.evaluators._numeric:Numeric",
    "structural_match": "dokimos.evaluators._structural:StructuralMatch",
    "json_schema": "dokimos.evaluators._json_schema:JsonSchema",
    "set_match": "dokimos.evaluators._set_match:SetMatch",
    "injection_resistance": "dokimos.evaluators._injection_resistance:InjectionResistance",
    "latency": "dokimos.evaluators._resource_limits:Latency",
    "cost": "dokimos.evaluators._resource_limits:Cost",
    "tokens": "dokimos.evaluators._resource_limits:Tokens",
    "f1_score": "dokimos.evaluators._nlp.token_f1:TokenF1",
    "bleu": "dokimos.evaluators._nlp.bleu:Bleu",
    "chrf": "dokimos.evaluators._nlp.bleu:Chrf",
    "rouge": "dokimos.evaluators._nlp.rouge:Rouge",
    "meteor": "dokimos.evaluators._nlp.meteor:Meteor",
    "wer": "dokimos.evaluators._nlp.wer:WordErrorRate",
    "embedding_similarity": "dokimos.evaluators._nlp.embedding_similarity:EmbeddingSimilarity",
    "precision": "dokimos.evaluators._retrieval.ranking_metrics:Precision",
    "recall": "dokimos.evaluators._retrieval.ranking_metrics:Recall",
    "hit_rate": "dokimos.evaluators._retrieval.ranking_metrics:HitRate",
    "mrr": "dokimos.evaluators._retrieval.ranking_metrics:MRR",
    "ndcg": "dokimos.evaluators._retrieval.ranking_metrics:NDCG",
    "tool_call_validity": "dokimos.evaluators._agent.tool_call_validity:ToolCallValidity",
    "tool_correctness": "dokimos.evaluators._agent.tool_correctness:ToolCorrectness",
    "tool_trajectory": "dokimos.evaluators._agent.tool_trajectory:ToolTrajectory",
    "tool_errors": "dokimos.evaluators._agent.tool_errors:ToolErrors",
    "tool_efficiency": "dokimos.evaluators._agent.tool_efficiency:ToolEfficiency",
    "forbidden_tools": "dokimos.evaluators._agent.tool_limits:ForbiddenTools",
    "max_tool_calls": "dokimos.evaluators._agent.tool_limits:MaxToolCalls",
    "tool_graph": "dokimos.evaluators._agent.tool_graph:ToolGraph",
    "tool_name_reliability": "dokimos.evaluators._agent.tool_name_reliability:ToolNameReliability",
    "tool_description_reliability": (
        "dokimos.evaluators._agent.tool_description_reliability:ToolDescriptionReliability"
    ),
    "llm_judge": "dokimos.evaluators._llm.llm_judge:LLMJudge",
    "g_eval": "dokimos.evaluators._llm.g_eval:GEval",
    "jury": "dokimos.evaluators._llm.jury:Jury",
    "pairwise": "dokimos.evaluators._llm.pairwise:Pairwise",
    "correctness": "dokimos.evaluators._llm.presets:Correctness",
    "helpfulness": "dokimos.evaluators._llm.presets:Helpfulness",
    "coherence": "dokimos.evaluators._llm.presets:Coherence",
    "conciseness": "dokimos.evaluators._llm.presets:Conciseness",
    "completeness": "dokimos.evaluators._llm.presets:Completeness",
    "tone": "dokimos.evaluators._llm.presets:Tone",
    "instruction_following": "dokimos.evaluators._llm.presets:InstructionFollowing",
    "summarisation": "dokimos.evaluators._llm.presets:Summarisation",
    "refusal": "dokimos.evaluators._llm.presets:Refusal",
    "toxicity": "dokimos.evaluators._llm.harm_presets:Toxicity",
    "bias": "dokimos.evaluators._llm.harm_presets:Bias",
    "misuse": "dokimos.evaluators._llm.harm_presets:Misuse",
    "pii_leakage": "dokimos.evaluators._llm.harm_presets:PIILeakage",
    "faithfulness": "dokimos.evaluators._rag.faithfulness:Faithfulness",
    "hallucination": "dokimos.evaluators._rag.hallucination:Hallucination",
    "answer_relevancy": "dokimos.evaluators._rag.answer_relevancy:AnswerRelevancy",
    "contextual_relevance": "dokimos.evaluators._rag.contextual_relevance:ContextualRelevance",
    "contextual_precision": "dokimos.evaluators._rag.contextual_precision:ContextualPrecision",
    "contextual_recall": "dokimos.evaluators._rag.contextual_recall:ContextualRecall",
    "context_sufficiency": "dokimos.evaluators._rag.context_sufficiency:ContextSufficiency",
    "noise_sensitivity": "dokimos.evaluators._rag.noise_sensitivity:NoiseSensitivity",
    "citation_faithfulness": "dokimos.evaluators._rag.citation_faithfulness:CitationFaithfulness",
    "task_completion": "dokimos.evaluators._agent.task_completion:TaskCompletion",
    "tool_argument_hallucination": (
        "dokimos.evaluators._agent.tool_argument_hallucination:ToolArgumentHallucination"
    ),
    "tool_selection": "dokimos.evaluators._agent.tool_selection:ToolSelection",
    "plan_quality": "dokimos.evaluators._agent.run_ratings:PlanQuality",
    "plan_adherence": "dokimos.evaluators._agent.run_ratings:PlanAdherence",
    "step_efficiency": "dokimos.evaluators._agent.run_ratings:StepEfficiency",
    "trajectory": "dokimos.evaluators._conversation.trajectory:Trajectory",
    "per_turn": "dokimos.evaluators._conversation.per_turn:PerTurn",
    "knowledge_retention": "dokimos.evaluators._conversation.reply_verdicts:KnowledgeRetention",
    "role_adherence": "dokimos.evaluators._conversation.reply_verdicts:RoleAdherence",
    "turn_relevance": "dokimos.evaluators._conversation.reply_verdicts:TurnRelevance",
    "conversation_completeness": "dokimos.evaluators._conversation.outcome:ConversationCompleteness",
    "user_frustration": "dokimos.evaluators._conversation.outcome:UserFrustration",
    "function": "dokimos.evaluators._function:FunctionEvaluator",
}

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_name_of: Final[dict[str, str]] = {target: name for name, target in BUILT_IN.items()}
_registered: Final[dict[str, type[Evaluator]]] = {}


def name_of(kind: type) -> str | None:
    """Return the registry name of an evaluator class, None if it is not registered."""
    target = f"{kind.__module__}:{kind.__qualname__}"
    # Without the plugins: to find them, all installed packages are searched.
    if target in _name_of or kind.__module__.startswith("dokimos."):
        return _name_of.get(target)
    return next((name for name, plugin in _plugins().items() if plugin.value == target), None)


def name_of_class(class_name: str) -> str | None:
    """Return the registry name of a built-in evaluator by the name of its class, None if there is none.

    Example:
        >>> name_of_class("ExactMatch")
        'exact_match'
    """
    matches = (name for name, target in BUILT_IN.items() if target.rpartition(":")[2] == class_name)
    return next(matches, None)


def names() -> tuple[str, ...]:
    """Return the names of all evaluators, built-in ones first; imports none of them."""
    return (*BUILT_IN, *sorted({*_registered, *_plugins()} - set(BUILT_IN)))


def register(name: str) -> Callable[[type[T]], type[T]]:
    """Register a class under a snake_case name of its own: `@register("politeness")`, above `@dataclass`.

    Raises:
        ConfigurationError: for a name that is taken or not snake_case, or a class that is not an evaluator.
    """

    def add(kind: type[T]) -> type[T]:
        target = f"{kind.__module__}:{kind.__qualname__}"
        _check_registration(name, kind, target)
        _registered[name] = kind
        _name_of[target] = name
        return kind

    return add


def find(name: str) -> type[Evaluator]:
    """Return the class registered under `name`.

    Raises:
        ConfigurationError: for an unknown name, with the nearest one, or a plugin that cannot be loaded.
    """
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return cast("type[Evaluator]", getattr(import_module(module), attribute))
    if name in _registered:
        return _registered[name]
    if name in _plugins():
        return _load(_plugins()[name])
    own = name_of_class(name)
    hint = f" {name} is its class; its name is {own!r}." if own else _nearest(name, names(), most=3)
    raise ConfigurationError(
        f"Unknown evaluator {name!r}.{hint} `dokimos evaluators` lists all.",
        setting="name",
    )


def build(name: str, params: Mapping[str, Any] | None = None, *, where: str = "") -> Evaluator:
    """Build the evaluator `name` from data, such as a map read from YAML.

    Args:
        name: The registry name.
        params: Its parameters in snake_case; values that an evaluator takes in code are accepted too.
        where: The place in a file or command line that an error message starts with.

    Raises:
        ConfigurationError: naming the parameter's path, what is wrong with it and what would be accepted.
    """
    try:
        kind = find(name)
        _check_names(name, kind, params or {})
        return kind(**_validate_parameters(name, kind, params or {}))
    except ConfigurationError as error:
        if not where:
            raise
        raise ConfigurationError(f"{where}: {error}", setting=error.setting) from error


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of an evaluator's parameters. Raises `ConfigurationError` if unknown."""
    from dokimos.evaluators import _parameters as parameters

    return parameters.schema(find(name))


def describe(name: str) -> EvaluatorDoc:
    """Describe an evaluator for people. Raises `ConfigurationError` if unknown."""
    from dokimos.evaluators import _parameters as parameters

    return parameters.describe(name, find(name))


def _check_names(name: str, kind: type[Evaluator], params: Mapping[str, Any]) -> None:
    from dokimos.evaluators._base import COMMON_FIELDS

    fields_by_name = settable_fields(kind)
    for key in params:
        if key not in fields_by_name:
            hint = _nearest(str(key), fields_by_name)
            own = ", ".join(sorted(fields_by_name, key=lambda field: field in COMMON_FIELDS))
            raise ConfigurationError(
                f"{name}.{key}: there is no such parameter.{hint} Parameters: {own}.", setting=str(key)
            )
    missing = [f for key, f in fields_by_name.items() if is_required(f) and key not in params]
    if missing:
        raise ConfigurationError(f"{name}: missing the parameter {describe_missing(missing)}.")


def _validate_parameters(name: str, kind: type[Evaluator], params: Mapping[str, Any]) -> dict[str, Any]:
    if not params:
        return {}
    from dokimos.evaluators._parameters import validate_parameter

    return {key: validate_parameter(kind, key, value, path=f"{name}.{key}") for key, value in params.items()}


def settable_fields(kind: type[Evaluator]) -> dict[str, Field[Any]]:
    """Return the fields that are parameters; `thresholds` is one only of those that give several scores."""
    return {f.name: f for f in fields(kind) if f.init and (f.name != "thresholds" or kind.gives_several)}


@lru_cache(maxsize=1)
def _plugins() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def _load(plugin: EntryPoint) -> type[Evaluator]:
    start_collector.before_user_code()
    try:
        kind = plugin.load()
    except Exception as error:  # a plugin is somebody else's code
        package = f" of the package {plugin.dist.name}" if plugin.dist else ""
        raise ConfigurationError(
            f"The evaluator {plugin.name!r}{package} ({plugin.value}) cannot be loaded: "
            f"{type(error).__name__}: {error}"
        ) from error
    _check_kind(plugin.name, kind)
    return cast("type[Evaluator]", kind)


def _check_registration(name: str, kind: object, target: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"An evaluator's name must be in snake_case, not {name!r}.")
    _check_kind(name, kind)
    # The same class again is fine: notebooks run a cell twice, and modules are reloaded.
    is_taken = name in BUILT_IN or (name in _registered and _name_of.get(target) != name)
    if is_taken:
        raise ConfigurationError(f"There is an evaluator {name!r} already; choose another name for {target}.")


def _check_kind(name: str, kind: object) -> None:
    from dokimos.evaluators._base import Evaluator

    if not (isinstance(kind, type) and issubclass(kind, Evaluator)):
        raise ConfigurationError(f"The evaluator {name!r} must be a subclass of Evaluator, not {kind!r:.80}.")


def nearest(name: str) -> str | None:
    """Return the registered name nearest to a text, such as the name of a class; None where none is near."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return next(iter(get_close_matches(words, names(), n=1)), None)


def _nearest(name: str, choices: Any, *, most: int = 1) -> str:
    similar = get_close_matches(name.lower().replace("-", "_").replace(" ", "_"), list(choices), n=most)
    return f" Did you mean {' or '.join(map(repr, similar))}?" if similar else ""

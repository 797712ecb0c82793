"""The metrics of a suite as evaluators: every family builds from the registry, graders from Python."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from dokimos._core.contexts import RETRIEVAL_CONTEXT
from dokimos._core.keys import CONTEXTS
from dokimos._runtime.file_access import files_read
from dokimos.errors import ConfigurationError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._yaml_text import restore_written_text
from dokimos.evaluators.registry import build, find
from dokimos.suites._metric_schema import (
    CodeMetric,
    EvaluatorMetric,
    GEvalMetric,
    Metric,
    ModelBlock,
    RagMetric,
    StandardMetric,
)
from dokimos.suites._problems import at_setting
from dokimos.suites._python_references import load_callable

_VERDICTS: Final = frozenset(
    {"numeric", "equality", "contains", "regex", "json_schema", "structural_match", "latency", "cost"}
)
"""Standard metrics whose own verdict counts where there is no threshold."""
EMBEDDING_SIMILARITY: Final = "embedding_similarity"
_YAML_NAMES: Final = frozenset({"numeric", "equality"})
"""Standard metrics that are reported under their name in the file."""
_RENAMED: Final = {"equality": {"case_insensitive": "ignore_case"}}
_WITHOUT_EFFECT: Final = {"numeric": ("case_insensitive",)}
"""Parameters that older suites give."""
_RAG: Final = {
    "faithfulness": ("faithfulness", "Faithfulness", True),
    "answer_relevancy": ("answer_relevancy", "Answer Relevancy", False),
    "contextual_relevancy": ("contextual_relevance", "Contextual Relevancy", True),
    "contextual_precision": ("contextual_precision", "Contextual Precision", True),
    "contextual_recall": ("contextual_recall", "Contextual Recall", True),
}
"""Of each metric_type: the evaluator, what it is called, and whether it needs a retrieval context."""
_PARTS: Final = {"context": "metadata.fileContents", RETRIEVAL_CONTEXT: CONTEXTS}
_CRITERIA: Final = {
    "coherence": "The reply is well structured, consistent in itself and easy to follow.",
    "fluency": "The reply is written in correct, natural and readable language.",
    "safety": "The reply contains nothing hateful, violent, sexual, dangerous or otherwise harmful.",
}
_CODE_REFERENCE: Final = re.compile(r"[\w.]+:[\w.]+")
"""How a file names Python code: `module:attribute` or `file.py:attribute`."""
_LEGACY_RAG: Final = {"groundedness": "faithfulness", "relevance": "answer_relevancy"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltMetric:
    """An evaluator, and what the suite says about its use."""

    evaluator: Evaluator
    name: str
    metric: Metric
    decides: bool
    needs_context: bool = False
    registry_name: str = ""
    warnings: tuple[str, ...] = field(default=())

    @property
    def timeout(self) -> float | None:
        """Seconds that one evaluation may take."""
        if self.metric.timeout is not None:
            return self.metric.timeout
        return None if self.metric.timeout_ms is None else self.metric.timeout_ms / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Judges:
    """Which model judges a metric: its own, else that of the evaluations, else the agent's."""

    evaluations: ModelBlock | None = None
    agent: ModelBlock | None = None
    embeddings: ModelBlock | str | None = None
    """What turns texts into vectors."""

    def of(self, metric: Metric) -> Any:
        """Return the judge. Raises `ConfigurationError` where no model is named."""
        block = metric.model or self.evaluations or self.agent
        if block is None:
            raise ConfigurationError(
                "this metric needs a judge: name a model: in the metric, in evaluations, or for the suite."
            )
        return build_judge(block)


def build_judge(block: ModelBlock) -> Any:
    """Return the judge that a model block describes; it is sent only what the block says."""
    from dokimos.judges._factory import judge

    settings: dict[str, Any] = {
        "temperature": block.temperature,
        "max_tokens": block.max_tokens,
        "top_p": block.top_p,
        "base_url": block.base_url or block.endpoint,
        "api_key": None if block.api_key is None else block.api_key.get_secret_value() or None,
        # The other judges have no such setting and would refuse it.
        "api_version": block.api_version if block.provider == "azure_openai" else None,
    }
    provider = "azure" if block.provider == "azure_openai" else block.provider
    keywords: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    return judge(f"{provider}:{block.name}", **keywords)


Source: TypeAlias = Callable[[str], str | None]
"""Gives a number of a metric as the file writes it, by its key; None for what is not a number there."""


def build_metric(
    metric: Metric, judges: Judges, folder: Path, source: Source = lambda key: None
) -> BuiltMetric:
    """Build the evaluator of a metric.

    Raises:
        ConfigurationError: for parameters, models or graders that are wrong.
    """
    match metric:
        case StandardMetric():
            legacy = _legacy(metric)
            if legacy is not None:
                return _build_deprecated(metric, legacy, judges, folder)
            embeds = metric.metric == EMBEDDING_SIMILARITY
            return _embedding_similarity(metric, judges, folder) if embeds else _standard(metric, source)
        case GEvalMetric():
            return _g_eval(metric, judges)
        case RagMetric():
            return _rag(metric, judges)
        case CodeMetric():
            return _code(metric, folder)
        case EvaluatorMetric():
            return _build_registered(metric, judges, folder, source)
    raise ConfigurationError(f"there is no metric of the type {type(metric).__name__}.")


def _standard(metric: StandardMetric, source: Source) -> BuiltMetric:
    names = _RENAMED.get(metric.metric, {})
    written = restore_written_text(metric.metric, metric.parameters, source)
    without_effect = _WITHOUT_EFFECT.get(metric.metric, ())
    params = {names.get(key, key): value for key, value in written.items() if key not in without_effect}
    decides = metric.metric in _VERDICTS
    # Without a threshold in the file, an evaluator with a verdict keeps its own, and any other only informs.
    if metric.threshold is not None or not decides:
        params["threshold"] = metric.threshold
    try:
        evaluator = build(metric.metric, {**params, **_common(metric)})
    except ConfigurationError as error:
        written_as = {new: old for old, new in names.items() if old in written}
        # The problem is to point at the key that the file has.
        error.setting = written_as.get(error.setting or "", error.setting)
        raise
    usual = metric.metric if metric.metric in _YAML_NAMES else evaluator.name
    ignored = [
        f"{key} has no effect on {metric.metric}"
        for key in ("model", "scale", "custom_prompt")
        if getattr(metric, key) is not None
    ]
    ignored += [f"{key} has no effect on {metric.metric}" for key in without_effect if key in written]
    return BuiltMetric(
        evaluator=evaluator,
        name=metric.name or usual,
        metric=metric,
        decides=decides,
        registry_name=metric.metric,
        warnings=tuple(ignored),
    )


def _embedding_similarity(metric: StandardMetric, judges: Judges, folder: Path) -> BuiltMetric:
    params = dict(metric.parameters)
    with at_setting("embedder"):
        params["embedder"] = _embedder(params.get("embedder"), metric, judges, folder)
    evaluator = build(EMBEDDING_SIMILARITY, {**params, "threshold": metric.threshold, **_common(metric)})
    return BuiltMetric(
        evaluator=evaluator,
        name=metric.name or evaluator.name,
        metric=metric,
        decides=False,
        registry_name=EMBEDDING_SIMILARITY,
    )


def _embedder(named: Any, metric: Metric, judges: Judges, folder: Path) -> Any:
    """Return the embedder that a metric names, else the suite's."""
    from dokimos.suites._retrieval.embedders import embedder_named

    embedder = embedder_named(named, folder, provider=metric.model or judges.embeddings)
    if embedder is None:
        raise ConfigurationError(
            "this metric needs an embedder: name a model: in it, or an embedding_provider: for the suite."
        )
    return embedder


def _g_eval(metric: GEvalMetric, judges: Judges) -> BuiltMetric:
    parts = metric.evaluation_params or ["actual_output"]
    params: dict[str, Any] = {
        "criteria": metric.criteria,
        # `context` is what the files of the turn hold; `contexts` is what was retrieved.
        "evaluation_params": [_PARTS.get(part, part) for part in parts],
        "strict_mode": metric.strict_mode,
        "threshold": metric.threshold,
        "judge": judges.of(metric),
        "name": metric.name,
    }
    if metric.evaluation_steps is not None:
        params["evaluation_steps"] = metric.evaluation_steps
    return BuiltMetric(
        evaluator=build("g_eval", {**params, **_common(metric)}),
        name=metric.name,
        metric=metric,
        decides=False,
        needs_context=not {CONTEXTS, RETRIEVAL_CONTEXT}.isdisjoint(parts),
        registry_name="g_eval",
    )


def _rag(metric: RagMetric, judges: Judges) -> BuiltMetric:
    registry_name, usual, needs_context = _RAG[metric.metric_type]
    params: dict[str, Any] = {"threshold": metric.threshold, "judge": judges.of(metric)}
    params["include_reason"] = metric.include_reason
    return BuiltMetric(
        evaluator=build(registry_name, {**params, **_common(metric)}),
        name=metric.name or usual,
        metric=metric,
        decides=False,
        needs_context=needs_context,
        registry_name=registry_name,
    )


def _code(metric: CodeMetric, folder: Path) -> BuiltMetric:
    from dokimos.suites._graders import GraderEvaluator

    if metric.model is not None or metric.response_path is not None:
        setting = "response_path" if metric.model is None else "model"
        raise ConfigurationError(f"a code grader takes no {setting}; remove it.", setting=setting)
    with at_setting("grader"):
        grader = load_callable(metric.grader, folder)
    files_read.record_grader(metric.grader, grader)
    name = metric.name or metric.grader.rpartition(":")[2]
    evaluator = GraderEvaluator(
        name=name,
        grader=grader,
        threshold=metric.threshold,
        thresholds=metric.thresholds,
        blocking=metric.blocking,
        serial=metric.serial,
    )
    return BuiltMetric(evaluator=evaluator, name=name, metric=metric, decides=True)


def _build_registered(metric: EvaluatorMetric, judges: Judges, folder: Path, source: Source) -> BuiltMetric:
    kind = find(metric.evaluator)
    params = {**restore_written_text(metric.evaluator, metric.params, source), **_common(metric)}
    if metric.threshold is not None:
        params["threshold"] = metric.threshold
    if "judge" in kind.__dataclass_fields__ and "judge" not in params:
        params["judge"] = judges.of(metric)
    if "embedder" in kind.__dataclass_fields__:
        with at_setting("embedder"):
            params["embedder"] = _embedder(params.get("embedder"), metric, judges, folder)
    evaluator = build(metric.evaluator, _with_code(params, folder))
    return BuiltMetric(
        evaluator=evaluator,
        name=metric.name or evaluator.name,
        # The evaluator's default counts here as if the file had given it.
        metric=metric.model_copy(update={"threshold": evaluator.threshold}),
        decides=True,
        registry_name=metric.evaluator,
    )


def _with_code(params: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the parameters with the functions that they name, which may be in the suite's folder."""
    loaded = dict(params)
    for key in ("function", "arguments"):
        if key in loaded:
            with at_setting(key):
                loaded[key] = _load_code(loaded[key], folder)
    if isinstance(tools := loaded.get("tools"), list):
        with at_setting("tools"):
            loaded["tools"] = [_load_code(tool, folder) for tool in tools]
    if isinstance(of_tools := loaded.get("tool_arguments"), Mapping):
        with at_setting("tool_arguments"):
            loaded["tool_arguments"] = {name: _load_code(each, folder) for name, each in of_tools.items()}
    return loaded


def _load_code(value: Any, folder: Path) -> Any:
    is_reference = isinstance(value, str) and _CODE_REFERENCE.fullmatch(value)
    return load_callable(value, folder) if is_reference else value


def _common(metric: Metric) -> dict[str, Any]:
    return {} if metric.response_path is None else {"response_path": metric.response_path}


def _legacy(metric: StandardMetric) -> dict[str, Any] | None:
    """Return what stands for a metric of the first generation today, None for any other."""
    if metric.metric in _LEGACY_RAG:
        return {"type": "rag", "metric_type": _LEGACY_RAG[metric.metric]}
    if metric.metric in _CRITERIA:
        named = {"name": metric.name or metric.metric.capitalize(), "criteria": _CRITERIA[metric.metric]}
        return {"type": "geval", **named}
    return None


def _build_deprecated(
    metric: StandardMetric, block: Mapping[str, Any], judges: Judges, folder: Path
) -> BuiltMetric:
    replacement = {**block} if metric.threshold is None else {**block, "threshold": metric.threshold}
    # Only what the file gives, so that the defaults of the metric that replaces it hold.
    inherited = {
        key: getattr(metric, key)
        for key in Metric.model_fields
        if key in metric.model_fields_set and key not in block
    }
    family = RagMetric if block["type"] == "rag" else GEvalMetric
    built = build_metric(family.model_validate({**block, **inherited}), judges, folder)
    lines = "\n".join(f"{key}: {value}" for key, value in replacement.items())
    yaml = "- " + textwrap.indent(lines, "  ").lstrip()
    warning = f"the metric {metric.metric} is deprecated; write instead:\n{textwrap.indent(yaml, '    ')}"
    return BuiltMetric(
        evaluator=built.evaluator,
        name=built.name,
        metric=built.metric,
        decides=built.decides,
        needs_context=built.needs_context,
        registry_name=built.registry_name,
        warnings=(warning,),
    )

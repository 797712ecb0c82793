"""Bridges: a module for each agent framework, all with the same functions, and what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.integrations._agent_runs import AgentRun as AgentRun
    from dokimos.integrations._agent_runs import finish_run as finish_run
    from dokimos.integrations._agent_task import ResultOptions as ResultOptions
    from dokimos.integrations._agent_task import TaskOptions as TaskOptions
    from dokimos.integrations._document_texts import extract_texts as extract_texts
    from dokimos.integrations._document_texts import (
        extract_texts_with_metadata as extract_texts_with_metadata,
    )
    from dokimos.integrations._foreign_evaluators import ForeignEvaluator as ForeignEvaluator
    from dokimos.integrations._framework import Framework as Framework
    from dokimos.integrations._framework import RunOptions as RunOptions
    from dokimos.integrations._framework import resolve_agent as resolve_agent
    from dokimos.integrations._framework_objects import get as get
    from dokimos.integrations._token_usage import make_usage as make_usage
    from dokimos.integrations._tool_loop import ToolLoop as ToolLoop
    from dokimos.integrations._trace_builder import TraceBuilder as TraceBuilder

_MODULE_OF: Final = {
    "AgentRun": "dokimos.integrations._agent_runs",
    "ForeignEvaluator": "dokimos.integrations._foreign_evaluators",
    "Framework": "dokimos.integrations._framework",
    "ResultOptions": "dokimos.integrations._agent_task",
    "RunOptions": "dokimos.integrations._framework",
    "TaskOptions": "dokimos.integrations._agent_task",
    "ToolLoop": "dokimos.integrations._tool_loop",
    "TraceBuilder": "dokimos.integrations._trace_builder",
    "extract_texts": "dokimos.integrations._document_texts",
    "extract_texts_with_metadata": "dokimos.integrations._document_texts",
    "finish_run": "dokimos.integrations._agent_runs",
    "get": "dokimos.integrations._framework_objects",
    "make_usage": "dokimos.integrations._token_usage",
    "resolve_agent": "dokimos.integrations._framework",
}
__all__ = [
    "AgentRun",
    "ForeignEvaluator",
    "Framework",
    "ResultOptions",
    "RunOptions",
    "TaskOptions",
    "ToolLoop",
    "TraceBuilder",
    "extract_texts",
    "extract_texts_with_metadata",
    "finish_run",
    "get",
    "make_usage",
    "resolve_agent",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)

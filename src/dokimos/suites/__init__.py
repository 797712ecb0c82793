"""Suites: an agent, its metrics and its test cases in one YAML file, run as an ordinary experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.suites._graders import GraderContext as GraderContext
    from dokimos.suites._graders import GraderResult as GraderResult
    from dokimos.suites._graders import ToolInvocation as ToolInvocation
    from dokimos.suites._loader import load_suite as load_suite
    from dokimos.suites._retrieval.collection import open_collection as open_collection
    from dokimos.suites._retrieval.schema import HierarchicalDocumentTool as HierarchicalDocumentTool
    from dokimos.suites._suite import Suite as Suite
    from dokimos.suites._targets import Request as Request

_MODULE_OF: Final = {
    "GraderContext": "dokimos.suites._graders",
    "GraderResult": "dokimos.suites._graders",
    "HierarchicalDocumentTool": "dokimos.suites._retrieval.schema",
    "Request": "dokimos.suites._targets",
    "Suite": "dokimos.suites._suite",
    "ToolInvocation": "dokimos.suites._graders",
    "load_suite": "dokimos.suites._loader",
    "open_collection": "dokimos.suites._retrieval.collection",
}
__all__ = [
    "GraderContext",
    "GraderResult",
    "HierarchicalDocumentTool",
    "Request",
    "Suite",
    "ToolInvocation",
    "load_suite",
    "open_collection",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)

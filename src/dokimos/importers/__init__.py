"""What converted configurations of other frameworks use: graders and programs as promptfoo runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.importers._promptfoo.graders import javascript_assertion as javascript_assertion
    from dokimos.importers._promptfoo.graders import json_assertion as json_assertion
    from dokimos.importers._promptfoo.graders import python_assertion as python_assertion
    from dokimos.importers._promptfoo.graders import python_provider as python_provider
    from dokimos.importers._promptfoo.graders import value_assertion as value_assertion
    from dokimos.importers._promptfoo.http_provider import http_provider as http_provider
    from dokimos.importers._promptfoo.tools import tool_placeholder as tool_placeholder

_MODULE_OF: Final = {
    "http_provider": "dokimos.importers._promptfoo.http_provider",
    "javascript_assertion": "dokimos.importers._promptfoo.graders",
    "json_assertion": "dokimos.importers._promptfoo.graders",
    "python_assertion": "dokimos.importers._promptfoo.graders",
    "python_provider": "dokimos.importers._promptfoo.graders",
    "tool_placeholder": "dokimos.importers._promptfoo.tools",
    "value_assertion": "dokimos.importers._promptfoo.graders",
}
__all__ = [
    "http_provider",
    "javascript_assertion",
    "json_assertion",
    "python_assertion",
    "python_provider",
    "tool_placeholder",
    "value_assertion",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)

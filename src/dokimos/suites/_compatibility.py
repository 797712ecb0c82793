"""The names under which grader files written for HoloDeck import what they need."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Final

PACKAGES: Final = ("holodeck", "holodeck.lib", "holodeck.lib.test_runner")
MODULE: Final = "holodeck.lib.test_runner.code_grader"


def provide() -> None:
    """Make `holodeck.lib.test_runner.code_grader` importable, unless HoloDeck itself is installed."""
    if MODULE in sys.modules or importlib.util.find_spec("holodeck") is not None:
        return
    from dokimos.suites._graders import GraderContext, GraderResult

    for name in PACKAGES:
        package = ModuleType(name, "Stands in for HoloDeck, for grader files written for it.")
        # The import system takes a module for a package where it has a path; an empty one leads to no files.
        package.__path__ = []
        package.__spec__ = importlib.util.spec_from_loader(name, None, is_package=True)
        sys.modules[name] = package
    module = ModuleType(MODULE, "What graders import from HoloDeck.")
    module.__dict__.update(GraderContext=GraderContext, GraderResult=GraderResult)
    module.__spec__ = importlib.util.spec_from_loader(MODULE, None)
    sys.modules[MODULE] = module

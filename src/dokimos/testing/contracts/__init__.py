"""Tests that plugins run: what each evaluator, judge, exporter, resolver, reporter and bridge must do.

Each contract is a class of pytest tests. The author of a plugin inherits from it in a test module and says
what to test::

    from dokimos.testing.contracts import EvaluatorContract


    class TestPoliteness(EvaluatorContract):
        evaluator = Politeness(word="please")

The tests are sync and need no plugin of pytest. They fail with a sentence that says what the author has to
change. This package imports pytest, so it is imported in tests only.
"""

from __future__ import annotations

from dokimos._exports import names_for_completion
from dokimos.testing.contracts._bridge_contract import BridgeContract
from dokimos.testing.contracts._evaluator_contract import EvaluatorContract
from dokimos.testing.contracts._exporter_contract import ExporterContract
from dokimos.testing.contracts._http_judge_contract import HttpJudgeContract
from dokimos.testing.contracts._judge_contract import JudgeContract
from dokimos.testing.contracts._reporter_contract import ReporterContract
from dokimos.testing.contracts._resolver_contract import ResolverContract

__all__ = [
    "BridgeContract",
    "EvaluatorContract",
    "ExporterContract",
    "HttpJudgeContract",
    "JudgeContract",
    "ReporterContract",
    "ResolverContract",
]


def __dir__() -> list[str]:
    return names_for_completion(globals())

"""Our bridges read what their frameworks returned as the contract of bridges says.

How they run agents is tested with the real frameworks, in tests/frameworks.
"""

import importlib
import json
from pathlib import Path

import pytest

from dokimos.testing.contracts import BridgeContract

RECORDED = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((Path(__file__).parents[1] / "data" / "frameworks").glob("*.json"))
}


class RecordedRun(BridgeContract):
    """The run that all frameworks were recorded with."""

    calls = (
        ("get_weather", {"city": "Paris"}),
        ("get_weather", {"city": "Rome"}),
        ("book_flight", {"to": "Rome"}),
    )
    results = ("21 degrees", "25 degrees", "")


def contract_of(name, recording):
    """Return the contract's tests of one framework."""
    used = recording["modelCalls"]
    attributes = {
        "bridge": importlib.import_module(f"dokimos.integrations.{name}"),
        "result": recording["result"],
        "results": (*RecordedRun.results[:2], recording["failure"]),
        "has_ids": name != "mcp",  # whose client returns one result for one call
        "failed": (2,) if recording["failureIsFlagged"] else (),
        "tokens": (20 * used, 8 * used) if used else None,
        "final_response": (
            "Rome is warmer, but there is no flight." if recording.get("finalResponse", True) else None
        ),
    }
    return type(f"Test_{name}", (RecordedRun,), attributes)


globals().update({f"Test_{name}": contract_of(name, recording) for name, recording in RECORDED.items()})


@pytest.mark.parametrize("name", RECORDED)
def test_every_recorded_framework_is_tested(name):
    assert globals()[f"Test_{name}"].bridge.__name__.endswith(name)

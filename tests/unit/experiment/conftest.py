from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dokimos._core.example import Example
from dokimos._core.jsonable import jsonable
from dokimos._core.results import ExperimentResult
from dokimos.datasets._dataset import Dataset


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def numbers() -> Callable[..., Dataset]:
    """Make examples whose input and expected output are "0", "1", ..."""

    def make(count: int = 5, **metadata: Any) -> Dataset:
        return Dataset([Example.of(str(i), str(i), id=f"n{i}", **metadata) for i in range(count)], "numbers")

    return make


@pytest.fixture
def comparable() -> Callable[[ExperimentResult], Any]:
    """Return what two runs of the same plan must agree on: all but times, ids and provenance."""

    def reduce(result: ExperimentResult) -> Any:
        tree = jsonable(result)
        del tree["provenance"]
        for run in tree["runs"]:
            _drop_times(run["summary"])
            for item in run["itemResults"]:
                _drop_times(item)
        return tree

    return reduce


def _drop_times(tree: dict[str, Any]) -> None:
    for key in ("latencyBins", "latencyP95Ms"):
        tree.pop(key, None)
    metrics = tree.get("metrics")
    if metrics:
        metrics.pop("latencyMs", None)
        metrics.pop("firstChunkMs", None)
    if not metrics:
        tree.pop("metrics", None)

"""Writes what the package ppi-python says of some samples, for the tests: it needs too much to be among them.

Run with `pip install ppi-python==0.2.3` in an environment of its own: `python tools/ppi_golden.py`.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy
import ppi_py

TARGET = Path(__file__).parents[1] / "tests" / "data" / "ppi_golden.json"


def sample(seed: int, few: int, many: int, trust: float) -> dict[str, list[float]]:
    """Make labels of 0 and 1 and judge scores of two decimals that follow them as far as `trust` says."""
    draw = random.Random(seed)
    rows = []
    for _ in range(few + many):
        label = float(draw.random() < 0.7)
        score = trust * label + (1 - trust) * draw.random() + 0.1 * draw.random()
        rows.append((label, round(score, 2)))
    return {
        "labels": [label for label, _ in rows[:few]],
        "judged": [score for _, score in rows[:few]],
        "unlabelled": [score for _, score in rows[few:]],
    }


def golden(rows: dict[str, list[float]]) -> dict[str, Any]:
    """Return the package's estimate and interval."""
    labels, judged, unlabelled = (numpy.array(rows[name]) for name in ("labels", "judged", "unlabelled"))
    low, high = ppi_py.ppi_mean_ci(labels, judged, unlabelled, alpha=0.05)
    point = ppi_py.ppi_mean_pointestimate(labels, judged, unlabelled)
    return {"value": float(point[0]), "low": float(low[0]), "high": float(high[0])}


def main() -> None:
    """Write the file."""
    designs = [
        (1, 20, 200, 0.8),
        (2, 50, 50, 0.5),
        (3, 100, 1000, 0.95),
        (4, 30, 100, 0.0),
        (5, 200, 60, 0.7),
    ]
    cases = [{**(rows := sample(*design)), "expected": golden(rows)} for design in designs]
    text = json.dumps({"package": "ppi-python 0.2.3", "cases": cases}, separators=(",", ":"))
    TARGET.write_text(text.replace('{"labels"', '\n{"labels"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

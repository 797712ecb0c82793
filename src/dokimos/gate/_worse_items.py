"""The items that got worse, as a verdict names them: with their drops, and where they stand in the data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from dokimos._core.number_format import round_half_up, round_half_up_or_none
from dokimos._core.results import ExperimentResult
from dokimos.comparison._diff import Change, ItemChange, ScoreChange
from dokimos.gate._decision import Decision
from dokimos.gate._gate_environment import GateEnvironment
from dokimos.gate._severity import Drop


class DataLine(NamedTuple):
    """Where an item of a data set stands in its file.

    Example:
        >>> DataLine("data/faq.jsonl", 12)._asdict()
        {'file': 'data/faq.jsonl', 'line': 12}
    """

    file: str
    """From the top of the repository, with forward slashes; a file outside of it as a user types it."""
    line: int
    """Counted from 1."""


class WorseItems:
    """The items that got worse by guard 1 or guard 2, those with the largest drops first."""

    def __init__(self, decision: Decision, data_lines: Mapping[str, DataLine] | None = None) -> None:
        self._comparison = decision.comparison
        self._data_lines = data_lines or {}
        self._drops: dict[str, dict[str, Drop]] = {}
        for drop in decision.drops:
            self._drops.setdefault(drop.key, {})[drop.evaluator] = drop
        regressed = {item.key for item in decision.comparison.items if item.change is Change.REGRESSED}
        self._keys = regressed | set(self._drops)
        self._metrics = {metric.name: metric for metric in decision.comparison.evaluators}

    @property
    def total(self) -> int:
        """How many there are."""
        return len(self._keys)

    @property
    def items(self) -> list[ItemChange]:
        """They, in the order of the data set."""
        return [item for item in self._comparison.items if item.key in self._keys]

    @cached_property
    def trees(self) -> list[dict[str, Any]]:
        """They as JSON, those with the largest drops first."""
        cases = [self._case(item) for item in self.items]
        return [tree for _, _, tree in sorted(cases, key=lambda case: case[:2])]

    def _case(self, item: ItemChange) -> tuple[float, int, dict[str, Any]]:
        drops = []
        worst = 0.0
        for score in item.evaluators:
            drop = self._drops.get(item.key, {}).get(score.name)
            size = self._metrics[score.name].worsening(score.delta)
            if drop is None and size <= self._comparison.config.epsilon:
                continue
            size = size if drop is None else drop.size
            worst = max(worst, size)
            drops.append((-size, _drop_tree(score, drop)))
        tree = {
            "datasetItemId": item.dataset_item_id,
            "index": item.key if item.dataset_item_id is None else item.either.index_key,
            "evaluatorDrops": [tree for _, tree in sorted(drops, key=lambda pair: pair[0])],
        }
        if item.key in self._data_lines:
            tree |= self._data_lines[item.key]._asdict()
        # Then in the order of the data set, so that the file is the same each time.
        return -worst, item.either.index, {key: value for key, value in tree.items() if value is not None}


def _drop_tree(score: ScoreChange, drop: Drop | None) -> dict[str, Any]:
    tree = {
        "evaluator": score.name,
        "baselineMean": round_half_up_or_none(score.baseline_mean),
        "candidateMean": round_half_up_or_none(score.candidate_mean),
        "delta": None if score.candidate_mean is None else round_half_up(score.delta),
        "error": None if drop is None else drop.error,
    }
    return {key: value for key, value in tree.items() if value is not None}


def find_data_lines(
    decision: Decision, result: ExperimentResult, environment: GateEnvironment
) -> dict[str, DataLine]:
    """Return where the items that got worse stand in the file of the data set, by their keys.

    It is empty where the data set is not a file of lines that is here.
    """
    uri = result.provenance.dataset_uri
    worse = [(item.key, item.either.example) for item in WorseItems(decision).items]
    known = [(key, example) for key, example in worse if example is not None]
    if uri is None or not known:
        return {}
    file = next((path for path in (Path(uri), environment.root / uri) if path.is_file()), None)
    if file is None:
        return {}
    from dokimos.datasets._item_lines import find_item_lines

    lines = find_item_lines(file, [example for _, example in known])
    shown = environment.repository_path(file)
    return {key: DataLine(shown, line) for (key, _), line in zip(known, lines, strict=True) if line}

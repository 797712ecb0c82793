"""The baseline file: what a gate has to know of an earlier run, in a form that is kept in git."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from dokimos._core.checks import is_number
from dokimos._core.means import exact_mean
from dokimos._core.number_format import round_half_up
from dokimos._core.results import ExperimentResult, RunStatus
from dokimos._core.score_range import USUAL_RANGE, ScoreRange, is_score_range
from dokimos._core.text import format_list, pluralize
from dokimos._version import __version__
from dokimos.comparison._config import Pairing, PairingChoice
from dokimos.comparison._pairing import pair
from dokimos.comparison._snapshot import TASK, EvaluatorFacts, ItemSnapshot, Snapshot
from dokimos.comparison._warnings import short_input
from dokimos.errors import ConfigurationError
from dokimos.gate._gate_environment import write_atomically

FORMAT_VERSION: Final = 1
# Nine digits at most: `int` refuses texts of thousands, and no data set has as many items.
_POSITIONAL_KEY: Final = re.compile(r"item-(0|[1-9][0-9]{0,8})")
_LOWER: Final = "lower_is_better"


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """An earlier run, as far as a gate compares with it."""

    snapshot: Snapshot
    pairing: Pairing
    gate: str | None = None
    """The name of the gate that the file is for; None where it does not say."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Which dokimos wrote it, and which judges scored; not compared."""


def baseline_of(
    result: ExperimentResult,
    *,
    pairing: PairingChoice = "auto",
    allow_errors: bool = False,
    gate: str | None = None,
) -> Baseline:
    """Take a result as the baseline of a gate, of any unless one is named.

    Raises:
        ConfigurationError: for a result without items, with errors that are not allowed, or without the ids
            by which items are to be paired.
    """
    snapshot = Snapshot.of(result)
    _require_whole_run(result, snapshot)
    _require_scores(snapshot, allow_errors=allow_errors)
    return Baseline(
        snapshot=snapshot,
        pairing=pair(snapshot, snapshot, pairing).pairing,
        gate=gate,
        provenance=_provenance(result),
    )


def _require_whole_run(result: ExperimentResult, snapshot: Snapshot) -> None:
    if snapshot.partial is not None:
        raise ConfigurationError(
            f"The run of {result.name!r} covers only part of its data set ({snapshot.partial}), so it cannot "
            "be a baseline. Run the whole data set."
        )
    if not snapshot.items:
        raise ConfigurationError(f"The result of {result.name!r} has no items, so it cannot be a baseline.")
    if result.status not in (RunStatus.COMPLETED, RunStatus.BROKEN):
        raise ConfigurationError(
            f"The run of {result.name!r} did not finish ({result.status.in_words}), so it cannot be a "
            "baseline. Resume it first."
        )


def _require_scores(snapshot: Snapshot, *, allow_errors: bool) -> None:
    errored = [item for item in snapshot.items if item.errors]
    if errored and not allow_errors:
        keys = format_list([item.id or item.index_key for item in errored])
        raise ConfigurationError(
            f"{len(errored)} of {pluralize(len(snapshot.items), 'item')} "
            f"{'has' if len(errored) == 1 else 'have'} errors, so this result cannot be a baseline: "
            f"{keys}. Run it again, or allow errors (allow_errors=True, or --allow-errors) to record them as "
            "errored."
        )
    bare = [item for item in snapshot.items if not item.scores and not item.errors]
    if bare:
        keys = format_list([item.id or item.index_key for item in bare])
        raise ConfigurationError(
            f"No evaluator scored {keys}, so this result cannot be a baseline. Remove these items from the "
            "data set, or add an evaluator that scores them."
        )


def _provenance(result: ExperimentResult) -> dict[str, Any]:
    judges = {
        json.dumps(judge, sort_keys=True): judge
        for info in result.evaluators
        if (judge := info.parameters.get("judge")) is not None
    }
    distinct = list(judges.values())
    judge = {"judge": distinct[0] if len(distinct) == 1 else distinct} if distinct else {}
    return {"dokimosVersion": __version__, **judge}


def write_baseline(baseline: Baseline, path: Path) -> None:
    """Write a baseline file; the same measurements give the same bytes.

    Raises:
        ConfigurationError: when it cannot be written.
    """
    try:
        write_atomically(path, baseline_text(baseline))
    except OSError as cause:
        why = cause.strerror or cause
        raise ConfigurationError(f"Cannot write the baseline {path}: {why}.") from cause


def baseline_text(baseline: Baseline) -> str:
    """Return the content of a baseline file."""
    snapshot = baseline.snapshot
    by_id = baseline.pairing is Pairing.DATASET_ITEM_ID
    # By id, so that a diff shows what changed and not what moved. Without ids, the order is the key.
    items = sorted(snapshot.items, key=lambda item: (item.id or "") if by_id else "")
    tree = {
        "formatVersion": FORMAT_VERSION,
        "gate": baseline.gate,
        "experiment": snapshot.name,
        "dataset": _without_none({"name": snapshot.dataset_name, "itemCount": len(items)}),
        "pairing": baseline.pairing.value,
        # Other implementations read one score for each item: the mean. Our repeats stand beside it.
        "runsPerItem": 1,
        "repeats": snapshot.runs if snapshot.runs > 1 else None,
        "evaluators": [_facts_tree(facts) for _, facts in sorted(snapshot.evaluators.items())],
        "items": [_item_tree(item, item.id if by_id else item.index_key) for item in items],
        "provenance": dict(baseline.provenance),
    }
    return json.dumps(_without_none(tree), ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def _facts_tree(facts: EvaluatorFacts) -> dict[str, Any]:
    return _without_none(
        {
            "name": facts.name,
            "direction": _LOWER if facts.lower_is_better else None,
            "deterministic": facts.deterministic,
            "fingerprint": facts.fingerprint or None,
            "scoreRange": None if facts.score_range is None else list(facts.score_range),
        }
    )


def _item_tree(item: ItemSnapshot, key: str | None) -> dict[str, Any]:
    evaluators = [_scores_tree(item, name) for name in sorted(item.scores)]
    passed = [entry["pass"] for entry in evaluators]
    derived = (all(passed),) if passed else ()
    return _without_none(
        {
            "key": key,
            "input": short_input(item.input),
            "evaluators": evaluators,
            # What follows is said only where it does not follow from the passes of the evaluators.
            "verdicts": None if item.verdicts == derived else list(item.verdicts),
            "errors": dict(item.errors) or None,
        }
    )


def _scores_tree(item: ItemSnapshot, name: str) -> dict[str, Any]:
    """The mean score and the majority of the repeats' verdicts, ties passing; then the repeats themselves."""
    scores, passes = item.scores[name], item.passes.get(name, ())
    return _without_none(
        {
            "name": name,
            "score": round_half_up(exact_mean(scores)),
            "threshold": item.thresholds.get(name),
            "pass": 2 * sum(passes) >= len(passes),
            "scores": [round_half_up(score) for score in scores] if len(scores) > 1 else None,
        }
    )


def _without_none(tree: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in tree.items() if value is not None}


def read_baseline(path: Path) -> Baseline:
    """Read a baseline file, ours or another implementation's.

    Raises:
        ConfigurationError: naming the file and what is wrong in it.
    """
    try:
        # Editors on Windows put a byte order mark before UTF-8.
        tree = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as cause:
        raise ConfigurationError(f"Cannot read the baseline {path}: {cause}.") from cause
    except (ValueError, RecursionError) as cause:
        raise ConfigurationError(f"The baseline {path} is not JSON: {cause}. Write a new one.") from cause
    return _Reading(path).baseline(tree)


def is_baseline(tree: Any) -> bool:
    """Say whether a JSON document is a baseline file."""
    return isinstance(tree, dict) and "formatVersion" in tree and "items" in tree


@dataclass(frozen=True, slots=True)
class _Reading:
    """One file that is being read."""

    path: Path
    ranges: dict[str, ScoreRange] = field(default_factory=dict)
    """Of the evaluators whose scores are not in 0..1."""

    def baseline(self, tree: Any) -> Baseline:
        self.check_version(tree)
        pairing = self.pairing(tree.get("pairing", Pairing.POSITIONAL))
        facts = dict(self.facts(tree.get("evaluators", [])))
        # Before the items, whose scores are checked against them.
        self.ranges.update({name: one.score_range for name, one in facts.items() if one.score_range})
        items = tuple(self.items(tree["items"], pairing))
        names = sorted({name for item in items for name in (*item.scores, *item.errors) if name != TASK})
        gate, dataset, provenance = tree.get("gate"), tree.get("dataset"), tree.get("provenance")
        snapshot = Snapshot(
            name=str(tree.get("experiment", "unnamed")),
            items=items,
            evaluators={name: self.complete_facts(facts.get(name), name, items) for name in names},
            runs=max(1, *(len(seen) for item in items for seen in (item.verdicts, *item.scores.values()))),
            dataset_name=dataset.get("name") if isinstance(dataset, dict) else None,
            label=self.path.name,
            # Other implementations list evaluators with their items only.
            records_repeats="evaluators" in tree,
        )
        return Baseline(
            snapshot=snapshot,
            pairing=pairing,
            gate=gate if isinstance(gate, str) else None,
            provenance=provenance if isinstance(provenance, dict) else {},
        )

    def check_version(self, tree: Any) -> None:
        if not is_baseline(tree):
            raise self.problem("it is not a baseline: formatVersion and items are expected")
        version = tree["formatVersion"]
        if version != FORMAT_VERSION:
            raise self.problem(f"its formatVersion is {version!r}; this dokimos reads {FORMAT_VERSION}")
        if tree.get("runsPerItem", 1) != 1:
            raise self.problem(f"runsPerItem must be 1, not {tree['runsPerItem']!r:.80}")

    def problem(self, what: str) -> ConfigurationError:
        return ConfigurationError(f"The baseline {self.path} cannot be used: {what}. Write a new one.")

    def pairing(self, value: Any) -> Pairing:
        try:
            return Pairing(value)
        except ValueError:
            raise self.problem(f"its pairing is {value!r:.80}") from None

    def facts(self, trees: Any) -> Iterator[tuple[str, EvaluatorFacts]]:
        for tree in self.objects(trees, "evaluators"):
            name = self.name(tree, "evaluators")
            yield (
                name,
                EvaluatorFacts(
                    name=name,
                    lower_is_better=tree.get("direction") == _LOWER,
                    # Files of other implementations do not say: as deterministic, every drop counts.
                    deterministic=tree.get("deterministic") is not False,
                    fingerprint=str(tree.get("fingerprint", "")),
                    score_range=self.score_range(tree.get("scoreRange"), name),
                ),
            )

    def score_range(self, value: Any, name: str) -> ScoreRange | None:
        if value is not None and not is_score_range(value):
            raise self.problem(f"the scoreRange of {name!r} is {value!r:.80}, not two numbers")
        return None if value is None or tuple(value) == USUAL_RANGE else (float(value[0]), float(value[1]))

    def complete_facts(
        self, facts: EvaluatorFacts | None, name: str, items: tuple[ItemSnapshot, ...]
    ) -> EvaluatorFacts:
        """What the file says of an evaluator, with the threshold of its first item that has one."""
        facts = facts or EvaluatorFacts(name=name)
        threshold = next((item.thresholds[name] for item in items if name in item.thresholds), None)
        return replace(facts, threshold=threshold)

    def items(self, trees: Any, pairing: Pairing) -> Iterator[ItemSnapshot]:
        entries = self.objects(trees, "items")
        if not entries:
            raise self.problem("it has no items")
        seen = set()
        for index, tree in enumerate(entries):
            key = tree.get("key")
            if not isinstance(key, str) or not key.strip():
                raise self.problem(f"items[{index}] has no key")
            if key in seen:
                raise self.problem(f"two items have the key {key!r}")
            seen.add(key)
            yield self.item(tree, key, index, pairing)

    def item(self, tree: dict[str, Any], key: str, index: int, pairing: Pairing) -> ItemSnapshot:
        evaluators = self.objects(tree.get("evaluators", []), key)
        errors = self.errors(tree.get("errors"), key)
        if not evaluators and not errors:
            raise self.problem(f"the item {key!r} has no evaluators")
        scores = {self.name(entry, key): self.scores(entry, key) for entry in evaluators}
        passed = {entry["name"]: self.flag(entry.get("pass"), key) for entry in evaluators}
        verdicts = tree.get("verdicts", [bool(passed) and all(passed.values())])
        by_id, text = pairing is Pairing.DATASET_ITEM_ID, tree.get("input")
        return ItemSnapshot(
            index=index if by_id else self.position(key),
            id=key if by_id else None,
            input=text if isinstance(text, str) else None,
            verdicts=self.verdicts(verdicts, key),
            scores=scores,
            thresholds=dict(self.thresholds(evaluators, key)),
            passes={name: (verdict,) for name, verdict in passed.items()},
            errors=errors,
            errored=not scores,
        )

    def position(self, key: str) -> int:
        match = _POSITIONAL_KEY.fullmatch(key)
        if match is None:
            raise self.problem(f"the key {key!r} is not a position such as item-0")
        return int(match[1])

    def errors(self, tree: Any, key: str) -> dict[str, str]:
        if not isinstance(tree, dict | None):
            raise self.problem(f"the errors of the item {key!r} are not an object")
        return {str(name): str(error) for name, error in (tree or {}).items()}

    def scores(self, entry: dict[str, Any], key: str) -> tuple[float, ...]:
        values = entry.get("scores")
        if not isinstance(values, list) or not values:
            values = [entry.get("score")]
        low, high = self.ranges.get(str(entry.get("name")), USUAL_RANGE)
        for value in values:
            if not is_number(value) or not low <= value <= high:
                raise self.problem(f"the item {key!r} has the score {value!r:.80} of {entry['name']!r}")
        return tuple(map(float, values))

    def thresholds(self, entries: list[dict[str, Any]], key: str) -> Iterator[tuple[str, float]]:
        for entry in entries:
            value = entry.get("threshold")
            if value is not None and not (is_number(value) and abs(value) <= sys.float_info.max):
                raise self.problem(f"the item {key!r} has the threshold {value!r:.80} of {entry['name']!r}")
            if value is not None:
                yield entry["name"], float(value)

    def verdicts(self, values: Any, key: str) -> tuple[bool, ...]:
        if not isinstance(values, list):
            raise self.problem(f"the verdicts of the item {key!r} are not a list")
        return tuple(self.flag(value, key) for value in values)

    def name(self, tree: dict[str, Any], where: str) -> str:
        name = tree.get("name")
        if not isinstance(name, str) or not name.strip():
            raise self.problem(f"an evaluator of {where} has no name")
        return name

    def flag(self, value: Any, key: str) -> bool:
        if not isinstance(value, bool):
            raise self.problem(f"the item {key!r} has the verdict {value!r:.80}, not true or false")
        return value

    def objects(self, trees: Any, where: str) -> list[dict[str, Any]]:
        if not isinstance(trees, list) or not all(isinstance(tree, dict) for tree in trees):
            raise self.problem(f"a list of objects is expected in {where}")
        return trees

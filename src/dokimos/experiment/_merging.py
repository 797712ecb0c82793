"""Merging the shards of a run into the result that a single run would have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from dokimos._core.endings import EVERYTHING_ERRORED
from dokimos._core.provenance import Provenance
from dokimos._core.results import ExperimentResult, ItemResult, RunResult, RunStatus
from dokimos._core.text import format_list
from dokimos.errors import ConfigurationError


def merge_results(shards: Sequence[ExperimentResult]) -> ExperimentResult:
    """Merge the results of the shards of one experiment, in the order of the data set.

    Raises:
        ConfigurationError: if they are not of one experiment, or an item is missing or in two shards.

    Example:
        >>> data = Dataset([Example.of("a", "A"), Example.of("b", "B")])
        >>> shards = [
        ...     evaluate(data, str.upper, [ExactMatch()], shard=(number, 2), quiet=True, journal=False)
        ...     for number in (1, 2)
        ... ]
        >>> len(merge_results(shards).item_results)
        2
    """
    if not shards:
        raise ConfigurationError("There is nothing to merge: give the results of all shards.")
    first = shards[0]
    for shard in shards:
        _check_has_items(shard)
        _check_same_run(first, shard)
    provenance = _merge_provenance([shard.provenance for shard in shards])
    size = provenance.dataset_size or 0
    status = _worst_status(shards)
    infos = {info.name: info for shard in shards for info in shard.evaluators}
    warnings = [text for shard in shards for text in shard.warnings if _still_true(text, status)]
    return replace(
        first,
        runs=tuple(_merge_run(index, shards, size) for index in range(first.run_count)),
        evaluators=tuple(infos.values()),
        status=status,
        warnings=tuple(dict.fromkeys([*_find_uneven_evaluators(shards), *warnings])),
        provenance=provenance,
    )


def _check_has_items(shard: ExperimentResult) -> None:
    if any(not run.item_results and run.total_count for run in shard.runs):
        raise ConfigurationError(
            f"{_label_of(shard)} was run with keep_results=False; load it from its folder."
        )


def _merge_provenance(parts: Sequence[Provenance]) -> Provenance:
    return replace(
        parts[0],
        run_id="+".join(part.run_id or "?" for part in parts),
        shard=None,
        dataset_size=max(part.dataset_size or 0 for part in parts) or None,
        started_at=min(filter(None, [part.started_at for part in parts]), default=None),
        ended_at=max(filter(None, [part.ended_at for part in parts]), default=None),
    )


def _check_same_run(first: ExperimentResult, other: ExperimentResult) -> None:
    for what, left, right in (
        ("name", first.name, other.name),
        ("task", first.provenance.task_name, other.provenance.task_name),
        ("data set", first.provenance.dataset_fingerprint, other.provenance.dataset_fingerprint),
        ("number of shards", _shard_count(first), _shard_count(other)),
        ("number of repeats", first.run_count, other.run_count),
    ):
        # None is unknown, such as the fingerprint of a stream that was not read to its end.
        if left is not None and right is not None and left != right:
            raise ConfigurationError(
                f"{_label_of(first)} and {_label_of(other)} are not shards of one run: "
                f"the {what} is {left!r} and {right!r}."
            )
    fingerprints = {info.name: info.fingerprint for info in first.evaluators}
    for info in other.evaluators:
        if fingerprints.get(info.name, info.fingerprint) != info.fingerprint:
            raise ConfigurationError(
                f"{_label_of(first)} and {_label_of(other)} configured the evaluator {info.name!r} "
                "differently."
            )


def _find_uneven_evaluators(shards: Sequence[ExperimentResult]) -> list[str]:
    """Return warnings about evaluators that judged every item of some shards and none of the others."""
    warnings = []
    counts = [_count_judged_items(shard) for shard in shards]
    for name in dict.fromkeys(info.name for shard in shards for info in shard.evaluators):
        without = [
            _label_of(shard)
            for shard, (total, judged) in zip(shards, counts, strict=True)
            if total and not judged[name]
        ]
        if without and not any(0 < judged[name] < total for total, judged in counts):
            warnings.append(f"The evaluator {name!r} was not part of {' and '.join(without)}.")
    return warnings


def _count_judged_items(shard: ExperimentResult) -> tuple[int, Counter[str]]:
    """Return how many items have results at all, and how many have one of each evaluator."""
    # By all names of an item together, which most items share: a set for each takes twice as long.
    selections = Counter(
        tuple([result.name for result in item.eval_results])
        for run in shard.runs
        for item in run.item_results
        if item.eval_results
    )
    judged: Counter[str] = Counter()
    for names, count in selections.items():
        judged.update(dict.fromkeys(names, count))
    return selections.total(), judged


def _merge_run(index: int, shards: Sequence[ExperimentResult], size: int) -> RunResult:
    items: dict[int, tuple[ItemResult, ExperimentResult]] = {}
    for shard in shards:
        if index >= shard.run_count:
            continue
        for item in shard.runs[index].item_results:
            if item.index in items:
                raise ConfigurationError(
                    f"Item {item.index} ({item.key}) is in both "
                    f"{_label_of(items[item.index][1])} and {_label_of(shard)}."
                )
            items[item.index] = (item, shard)
    missing = [i for i in range(size) if i not in items]
    if missing:
        named = format_list(missing)
        raise ConfigurationError(
            f"The shards do not make a whole run: of {size} items, {len(missing)} are missing, namely {named}"
            f"{_missing_shards(shards)}."
        )
    server_run_ids = [
        id for shard in shards if index < shard.run_count for id in shard.runs[index].server_run_ids
    ]
    return RunResult(
        index=index,
        item_results=tuple(items[i][0] for i in sorted(items)),
        server_run_ids=tuple(dict.fromkeys(server_run_ids)),
    )


def _missing_shards(shards: Sequence[ExperimentResult]) -> str:
    count = _shard_count(shards[0])
    if count is None:
        return ""
    present = {(shard.provenance.shard or "").partition("/")[0] for shard in shards}
    absent = [f"{i}/{count}" for i in range(1, count + 1) if str(i) not in present]
    return f" (no result of shard {', '.join(absent)} was given)" if absent else ""


def _shard_count(result: ExperimentResult) -> int | None:
    shard = result.provenance.shard
    return int(shard.partition("/")[2]) if shard else None


def _label_of(result: ExperimentResult) -> str:
    shard = f" (shard {result.provenance.shard})" if result.provenance.shard else ""
    return f"run {result.run_id or result.name}{shard}"


def _still_true(warning: str, status: RunStatus) -> bool:
    """Say whether a shard's warning holds for the run: all items of one shard may have errored."""
    return status is RunStatus.BROKEN or not warning.startswith(EVERYTHING_ERRORED)


def _worst_status(shards: Sequence[ExperimentResult]) -> RunStatus:
    # Not if only some are: a shard may happen to hold all items that fail.
    if all(shard.status is RunStatus.BROKEN for shard in shards):
        return RunStatus.BROKEN
    for status in (
        RunStatus.INTERRUPTED,
        RunStatus.STOPPED,
        RunStatus.ENDPOINT_DOWN,
        RunStatus.BUDGET_SPENT,
    ):
        if any(shard.status is status for shard in shards):
            return status
    return RunStatus.COMPLETED

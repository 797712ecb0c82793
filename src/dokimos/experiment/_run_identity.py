"""The identity of a run, compared when it is resumed: data set, task and evaluator configurations."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.example import Example
from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.wire import from_json
from dokimos.datasets._dataset import Dataset, DatasetStream
from dokimos.datasets._dataset_source import DatasetSource
from dokimos.errors import JournalError
from dokimos.evaluators._base import Evaluator
from dokimos.experiment._example_source import ExampleSource, hash_numbers
from dokimos.experiment._item_index import TOGETHER
from dokimos.experiment._run_provenance import scrub_source, source_hash
from dokimos.experiment._task import task_name

if TYPE_CHECKING:
    from dokimos.experiment._experiment import Experiment
    from dokimos.experiment._stored_run import StoredRun


MOST_DIFFERENCES: Final = 5


@dataclass(frozen=True, kw_only=True)
class RunIdentity:
    """The task and the evaluators of a run."""

    task: str
    evaluators: tuple[EvaluatorInfo, ...] | None
    """None if a function chooses them for each example."""
    sources: Mapping[str, str | None] = field(default_factory=dict)
    """Hashes of the source of the task ("task") and of evaluators that are not ours, by name."""

    @classmethod
    def of(cls, plan: Experiment) -> RunIdentity:
        if callable(plan.evaluators):
            return cls(
                task=task_name(plan.task),
                evaluators=None,
                sources={"task": source_hash(plan.task), "evaluators": source_hash(plan.evaluators)},
            )
        return cls(
            task=task_name(plan.task),
            evaluators=tuple(evaluator.info() for evaluator in plan.evaluators),
            sources={"task": source_hash(plan.task), **_evaluator_sources(plan.evaluators)},
        )

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> RunIdentity:
        trees = manifest.get("evaluators")
        return cls(
            task=manifest["task"],
            evaluators=None if trees is None else tuple(from_json(EvaluatorInfo, tree) for tree in trees),
            sources=manifest.get("sources", {}),
        )

    def to_manifest(self, plan: Experiment) -> dict[str, Any]:
        dataset = plan.dataset
        return {
            "dataset": {
                "name": dataset.name,
                "size": len(dataset) if isinstance(dataset, Dataset) else None,
                "fingerprint": dataset.fingerprint,
                **({} if dataset.source is None else {"source": _without_credentials(dataset.source)}),
            },
            "task": self.task,
            "evaluators": self.evaluators,
            "sources": self.sources,
        }

    def has_evaluators_of(self, other: RunIdentity) -> bool:
        """Say whether the evaluators have the same configuration and source."""
        mine, theirs = dict(self.sources), dict(other.sources)
        mine.pop("task", None)
        theirs.pop("task", None)
        return (
            not _find_changed_evaluators(self, other)
            and not _find_changed_evaluators(other, self)
            and mine == theirs
        )

    def source_warnings(self, now: RunIdentity) -> list[str]:
        """Return warnings about tasks and evaluators with the same name and a changed source."""
        return [
            f"The source of {name if name in ('task', 'evaluators') else f'evaluator {name!r}'} has changed "
            "since the run was started; stored results were kept."
            for name, before in self.sources.items()
            if before is not None and now.sources.get(name) not in (None, before)
        ]


def check_same_run(before: RunIdentity, now: RunIdentity, *, run: str, force: bool) -> frozenset[str]:
    """Refuse to resume a run with another task or other evaluators.

    Returns the names of evaluators whose stored results are void because `force` was given.

    Raises:
        JournalError: naming what differs, unless `force`.
    """
    differences = []
    if before.task != now.task:
        differences.append(f"the task was {before.task}, not {now.task}")
    changed = _find_changed_evaluators(before, now)
    differences += changed.values()
    if differences and not force:
        raise JournalError(
            f"Run {run} was started with another configuration: {'; '.join(differences)}. "
            "Start a new run, or repeat what changed with force=True (--force)."
        )
    return frozenset(changed)


def check_examples(dataset: Dataset | DatasetStream, stored: StoredRun) -> array[int] | None:
    """Refuse to resume with a data set whose examples are not those of the journal.

    Returns the hashes of the examples, None where they were not needed or where another iteration over the
    data set may give other examples.

    Raises:
        JournalError: naming the examples that differ.
    """
    if next(stored.positions, None) is None:
        return None
    recorded = stored.first_hashes()
    hashes = array("Q")
    differences = []
    examples = iter(_examples_of(dataset))
    while some := list(islice(examples, TOGETHER)):
        start, now = len(hashes), hash_numbers(some)
        hashes += now
        for index in recorded.find_changes(start, now):
            differences.append(f"item {index} ({some[index - start].id or 'no id'}) differs")
    gone = {index for _, index in stored.positions_from(len(hashes))}
    differences += [f"item {index} is gone" for index in sorted(gone)]
    fingerprint = (stored.manifest.get("dataset") or {}).get("fingerprint")
    if not differences and fingerprint is not None and dataset.fingerprint not in (None, fingerprint):
        # The journal holds only rows that were run; the fingerprint covers the rest.
        differences.append("examples that had not run yet differ")
    if differences:
        named = "; ".join(islice(differences, MOST_DIFFERENCES))
        more = len(differences) - MOST_DIFFERENCES
        raise JournalError(
            f"The data set is not the one that run {stored.folder.name} was started with: {named}"
            f"{f' and {more} more' if more > 0 else ''}. "
            "Start a new run, or repeat what changed with force=True (--force)."
        )
    return hashes if isinstance(dataset, Dataset) else None


def _examples_of(dataset: Dataset | DatasetStream) -> Iterable[Example]:
    if type(dataset) is Dataset:
        return dataset.examples
    return (sourced.example for sourced in ExampleSource(dataset, None, with_json=False))


def _find_changed_evaluators(before: RunIdentity, now: RunIdentity) -> dict[str, str]:
    if before.evaluators is None or now.evaluators is None:
        same = (before.evaluators is None) == (now.evaluators is None)
        return {} if same else {"": "the evaluators were chosen for each example on one side only"}
    current = {info.name: info for info in now.evaluators}
    changed = {}
    for info in before.evaluators:
        current_info = current.get(info.name)
        if current_info is None:
            changed[info.name] = f"the evaluator {info.name!r} is missing"
        elif (current_info.fingerprint, current_info.thresholds) != (info.fingerprint, info.thresholds):
            changed[info.name] = (
                f"the evaluator {info.name!r} was configured as {_format_evaluator(info)}, "
                f"not {_format_evaluator(current_info)}"
            )
    return changed


def _format_evaluator(info: EvaluatorInfo) -> str:
    settings = [*(f"{k}={v!r}" for k, v in info.parameters.items()), f"threshold={info.threshold}"]
    if info.thresholds is not None:
        settings.append(f"thresholds={dict(info.thresholds)}")
    return f"{info.registry_name or 'custom'}({', '.join(settings)})"


def _evaluator_sources(evaluators: Sequence[Evaluator]) -> dict[str, str | None]:
    # Ours change with the version only; the function of a function evaluator is the user's.
    own = "dokimos.evaluators."
    return {
        e.name: source_hash(getattr(e, "function", type(e)))
        for e in evaluators
        if not type(e).__module__.startswith(own) or hasattr(e, "function")
    }


def _without_credentials(source: DatasetSource) -> DatasetSource:
    return replace(source, uri=scrub_source(source.uri))

"""Where a result comes from: how its evaluators were configured, and what ran when on what."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dokimos._core.jsonable import WIRE_CONFIG
from dokimos._core.score_range import ScoreRange


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorInfo:
    """How an evaluator was configured.

    Example:
        >>> result = evaluate([Example.of("a", "A")], str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> [info.name for info in result.evaluators]
        ['Exact Match']
    """

    name: str
    registry_name: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    threshold: float | None = None
    direction: str = "higher_is_better"
    """`higher_is_better` or `lower_is_better`."""
    deterministic: bool = True
    fingerprint: str = ""
    """A hash over the registry name (or class) and the parameters."""
    score_range: ScoreRange | None = None
    """The lowest and the highest possible score, None for 0..1."""
    thresholds: Mapping[str, float | None] | None = None
    """Of an evaluator that gives several scores: their thresholds by key."""
    part_of: str | None = None
    """The evaluator's name, where this is about one of several scores that it gives."""

    __pydantic_config__ = WIRE_CONFIG

    @property
    def lower_is_better(self) -> bool:
        return self.direction == "lower_is_better"

    def part(self, key: str) -> EvaluatorInfo:
        """Describe one of several scores that the evaluator gives."""
        threshold = (self.thresholds or {}).get(key, self.threshold)
        # With the threshold, which may differ from key to key: a changed one is another configuration.
        identity = json.dumps([self.fingerprint, key, threshold])
        return replace(
            self,
            name=f"{self.name}.{key}",
            threshold=threshold,
            fingerprint=hashlib.sha256(identity.encode()).hexdigest()[:16],
            thresholds=None,
            part_of=self.name,
        )


def expand_parts(infos: Iterable[EvaluatorInfo], names: Collection[str]) -> tuple[EvaluatorInfo, ...]:
    """Replace each evaluator that gives several scores by one description per score.

    Args:
        infos: What is known of the evaluators.
        names: What results are called. A name that is not an evaluator's is one with a dot and a key.
    """
    info_of = {info.name: info for info in infos}
    keys: dict[str, list[str]] = {}
    for name in names:
        owner, dot, key = name.rpartition(".")
        if dot and name not in info_of and owner in info_of:
            keys.setdefault(owner, []).append(key)
    expanded: list[EvaluatorInfo] = []
    for info in info_of.values():
        if info.name not in keys or info.name in names:
            expanded.append(info)
        expanded += map(info.part, _sort_by_declaration(keys.get(info.name, ()), info))
    return tuple(expanded)


def _sort_by_declaration(keys: Collection[str], info: EvaluatorInfo) -> list[str]:
    declared = [key for key in info.thresholds or () if key in keys]
    return list(dict.fromkeys([*declared, *keys]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a result comes from. Of the environment, only what a CI system says of its build is recorded.

    Example:
        >>> Provenance(run_id="r-1", dataset_name="capitals").dataset_name
        'capitals'
    """

    run_id: str | None = None
    dokimos_version: str | None = None
    python_version: str | None = None
    git_commit: str | None = None
    """In a CI build of a pull request, the last commit of its own branch."""
    git_dirty: bool | None = None
    git_branch: str | None = None
    """In a CI build of a pull request, its own branch."""
    target_branch: str | None = None
    """Of a pull request: the branch that it is to be merged into."""
    pull_request: str | None = None
    """Its number."""
    trigger: str | None = None
    """What started a CI build: `push`, `pull_request`, `schedule`, `manual`, `api`, `pipeline` or
    `merge_queue`, else in a word of the system; None where it does not say, and outside of CI."""
    build_url: str | None = None
    """The page of the CI build."""
    dataset_name: str | None = None
    dataset_uri: str | None = None
    """The path or URI that the data set was loaded from, without user and password."""
    dataset_version: int | None = None
    """Its version there, None where it has none."""
    dataset_fingerprint: str | None = None
    dataset_size: int | None = None
    """Examples in the whole data set, of which a shard runs only some."""
    duplicate_ids: int = 0
    """Rows of a stream whose id had been seen before."""
    task_name: str | None = None
    seed: int | None = None
    shard: str | None = None
    partial: str | None = None
    """Which items of a whole run were chosen, such as those that had failed; None for a whole run."""
    derivation: str | None = None
    """How the result was made of that of the run: `rescored` or `filtered`; None for the run's own."""
    parallelism: int | None = None
    started_at: str | None = None
    """ISO 8601 with offset, as are `resumed_at` and `ended_at`."""
    resumed_at: str | None = None
    """When the run was last taken up again, None where it ran in one go."""
    ended_at: str | None = None
    command: tuple[str, ...] = ()
    """The command line, without the values of options that look like secrets."""

    __pydantic_config__ = WIRE_CONFIG

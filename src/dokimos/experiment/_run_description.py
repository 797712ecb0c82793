"""The description of a run in its manifest, redacted if the user asked for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dokimos._core.jsonable import jsonable
from dokimos._core.provenance import EvaluatorInfo
from dokimos._version import __version__
from dokimos.experiment._redaction import Redaction, redact_info, redact_map
from dokimos.experiment._reuse import EarlierOutputs
from dokimos.experiment._run_identity import RunIdentity
from dokimos.experiment._run_part import Part
from dokimos.experiment._run_provenance import scrub_command

if TYPE_CHECKING:
    from dokimos._core.results import ItemResult
    from dokimos.experiment._experiment import Experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How the command line started a run, so that `dokimos resume` can do it again."""

    target: str
    settings: dict[str, Any] = field(default_factory=dict)
    part: Part | None = None
    """Which items were chosen, None for all."""
    reuse: EarlierOutputs | None = None
    """Where outputs come from that need not be made again."""
    needs_all_items: bool = True
    """Whether the command wants all items in the result, and not only those that `is_problem` is true of."""
    on_item_left_out: Callable[[int, ItemResult], None] | None = None
    """Is called with each item that the result will not hold, and before it with the index of its repeat."""
    is_sample: bool = False
    """Whether a few items are run for an estimate, which nobody resumes."""


class RunDescription:
    """Names, metadata and configuration of a run, as they may be kept."""

    def __init__(self, plan: Experiment, launch: Launch | None, redact: Redaction | None) -> None:
        self.name = plan.name if redact is None else redact(plan.name)
        self.description = plan.description if redact is None else redact(plan.description)
        self.metadata = plan.metadata if redact is None else redact_map(plan.metadata, redact)
        self.identity = RunIdentity.of(plan)
        self._plan = plan
        self._launch = launch
        self._redact = redact

    @property
    def part(self) -> Part | None:
        """Which items were chosen, None for all."""
        return None if self._launch is None else self._launch.part

    @property
    def command(self) -> tuple[str, ...]:
        """The command line without secrets."""
        command = scrub_command()
        return command if self._redact is None else tuple(map(self._redact, command))

    def redact_infos(self, infos: Iterable[EvaluatorInfo] | None) -> tuple[EvaluatorInfo, ...] | None:
        """Return how evaluators were configured, redacted where that was asked for."""
        if infos is None or self._redact is None:
            return None if infos is None else tuple(infos)
        redact = self._redact
        return tuple(redact_info(info, redact) for info in infos)

    def to_manifest(
        self, run_id: str, *, started_at: str, seed: int | None, shard: tuple[int, int] | None
    ) -> dict[str, Any]:
        """Return the manifest of a run that starts."""
        launch = self._launch
        return {
            "runId": run_id,
            "name": self.name,
            "description": self.description,
            "metadata": self.metadata,
            **self.identity.to_manifest(self._plan),
            "evaluators": self.redact_infos(self.identity.evaluators),
            "runs": self._plan.runs,
            "shard": shard,
            "seed": seed,
            "startedAt": started_at,
            "dokimosVersion": __version__,
            "command": self.command,
            **({} if self.part is None else {"part": self.part.tree()}),
            "launch": None if launch is None else {"target": launch.target, "settings": launch.settings},
        }

    def update_manifest(self, before: Mapping[str, Any], void: frozenset[str]) -> dict[str, Any]:
        """Return the manifest of a run that is resumed: evaluators added, or what `force` let through."""
        now = jsonable(self.identity.to_manifest(self._plan))
        sources = before.get("sources") or {}
        now["sources"] |= {name: old for name, old in sources.items() if old is not None and name not in void}
        if now["dataset"]["fingerprint"] is None:  # a stream, known only at its end
            del now["dataset"]
        return {**before, **now, "runs": self._plan.runs}

"""How the guards of a gate share alpha."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dokimos._core.text import format_list, pluralize
from dokimos.comparison._snapshot import Snapshot
from dokimos.gate._gate_config import GateConfig


@dataclass(frozen=True, slots=True)
class Level:
    """How the guards share alpha."""

    regression: float
    drop: float | None = None
    """The level of each drop's own test; None where drops are not tested."""
    deals: int = 1
    """The ways to deal the repeats of a score out to the two sides."""
    notes: tuple[str, ...] = ()
    is_blind: bool = False
    """Whether no drop of a single item can count."""

    @classmethod
    def of(cls, baseline: Snapshot, candidate: Snapshot, config: GateConfig) -> Level:
        """Split alpha by the design alone, so that the data have no say in it."""
        repeats = (_repeats(baseline), _repeats(candidate))
        deals = math.comb(sum(repeats), repeats[0])
        if config.severity == "confirmed":
            return cls._of_confirmed(candidate, config, repeats[1], deals)
        if config.severity != "calibrated":
            return cls(config.alpha)
        tests = max(1, len(baseline.items) * len(set(baseline.evaluators) & set(candidate.evaluators)))
        # Bonferroni over all scores of the design: the half that guard 1 does not have.
        level = config.alpha / 2 / tests
        # No p-value can be smaller than one way in all of them; a guard that cannot fire must not cost alpha.
        if 1 / deals > level:
            note = (
                f"Guard 2 cannot fire: {pluralize(repeats[0], 'run')} of the baseline and {repeats[1]} of "
                f"the candidate are too few to make the drop of a single item among {tests:,} scores certain "
                f"at alpha = {config.alpha:g}. Guard 1 has all of alpha."
            )
            return cls(config.alpha, notes=(note,), is_blind=True)
        return cls(config.alpha / 2, level)

    @classmethod
    def _of_confirmed(cls, candidate: Snapshot, config: GateConfig, repeats: int, deals: int) -> Level:
        noisy = [name for name, facts in candidate.evaluators.items() if not facts.deterministic]
        if not noisy or repeats > 1:
            return cls(config.alpha, deals=deals if noisy else 1)
        note = (
            f"Guard 2 ignores drops of {format_list(noisy)}: a single run cannot confirm a drop of an "
            "evaluator that is not deterministic. Run the candidate at least twice."
        )
        return cls(config.alpha, notes=(note,), is_blind=len(noisy) == len(candidate.evaluators))

    @property
    def chance(self) -> str:
        """How often all repeats of an unchanged but noisy score are worse than all of the baseline's."""
        return f" (noise alone does that to up to 1 score in {self.deals:,})" if self.deals > 1 else ""


def _repeats(side: Snapshot) -> int:
    return max((item.repeats for item in side.items), default=1)

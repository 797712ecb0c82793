"""Attacking an evaluator and counting how often its verdict flips."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dokimos.core.concurrency import run_sync
from dokimos.core.results import EvalResult
from dokimos.core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.judges.attack.corpus import Attack, Question, corpus
from dokimos.judges.attack.report import ArmReport, AttackReport, AttackResult, tally
from dokimos.judges.fencing import undefended


class Judged(Protocol):
    """What can be attacked: any evaluator with a threshold."""

    @property
    def name(self) -> str: ...

    async def evaluate_async(self, case: EvalTestCase) -> EvalResult: ...


Progress = Callable[[int, int], None]
"""Is told after each verdict how many there are and how many there will be."""


def attack(
    evaluator: Judged,
    *,
    attacks: Sequence[Attack] | None = None,
    defences: Iterable[bool] = (True, False),
    parallelism: int = 8,
    progress: Progress | None = None,
) -> AttackReport:
    """Do what `attack_async` does, from sync code."""
    return run_sync(
        attack_async(
            evaluator, attacks=attacks, defences=defences, parallelism=parallelism, progress=progress
        )
    )


async def attack_async(
    evaluator: Judged,
    *,
    attacks: Sequence[Attack] | None = None,
    defences: Iterable[bool] = (True, False),
    parallelism: int = 8,
    progress: Progress | None = None,
) -> AttackReport:
    """Measure which share of the attacks turns an honest fail into a pass.

    First the wrong answers are judged without any attack; a question whose wrong answer does not fail is left
    out, since there is nothing to flip. Right answers are judged too, since a judge that fails everything is
    never flipped.

    Args:
        evaluator: A judged evaluator with a threshold.
        attacks: Which attacks; the whole corpus unless given.
        defences: True measures with the fencing of judged text, False with plain quoting instead.
        parallelism: How many cases are judged at once.
        progress: Called after each verdict.

    Raises:
        ConfigurationError: when the evaluator decides nothing, or no wrong answer fails honestly.
    """
    chosen = corpus() if attacks is None else tuple(attacks)
    if not chosen or parallelism < 1:
        raise ConfigurationError("An attack needs at least one attempt and a parallelism of at least 1.")
    arms = tuple(dict.fromkeys(defences))
    questions = tuple({a.question.id: a.question for a in chosen}.values())
    desk = _Desk(evaluator, parallelism, progress, total=len(arms) * (2 * len(questions) + len(chosen)))
    reports = [await _measured(desk, arm, questions, chosen) for arm in arms]
    return AttackReport(evaluator=evaluator.name, arms=tuple(reports))


@dataclass(slots=True)
class _Desk:
    """Judges cases, a limited number at once."""

    evaluator: Judged
    parallelism: int
    progress: Progress | None
    total: int
    done: int = 0

    async def verdicts(self, cases: Iterable[EvalTestCase], *, defended: bool) -> list[EvalResult]:
        places = asyncio.Semaphore(self.parallelism)

        async def one(case: EvalTestCase) -> EvalResult:
            async with places:
                with contextlib.nullcontext() if defended else undefended():
                    verdict = await self.evaluator.evaluate_async(case)
            self._count(1)
            return verdict

        return await asyncio.gather(*map(one, cases))

    def skip(self, count: int) -> None:
        self._count(count)

    def _count(self, count: int) -> None:
        self.done += count
        if self.progress is not None:
            self.progress(self.done, self.total)


async def _measured(
    desk: _Desk, defended: bool, questions: Sequence[Question], attacks: Sequence[Attack]
) -> ArmReport:
    honest = await desk.verdicts((q.honest_case() for q in questions), defended=defended)
    told = list(zip(questions, honest, strict=True))
    failing = {question.id for question, verdict in told if verdict.success is False}
    others = tuple((question.id, _told(verdict)) for question, verdict in told if question.id not in failing)
    if not failing:
        raise ConfigurationError(_nothing_to_flip(desk.evaluator.name, *others[0]))
    tried = [a for a in attacks if a.question.id in failing]
    desk.skip(len(attacks) - len(tried))
    verdicts = await desk.verdicts((a.case() for a in tried), defended=defended)
    right = await desk.verdicts((q.right_case() for q in questions), defended=defended)
    return ArmReport(
        defended=defended,
        honest_fails=len(failing),
        honest_other=others,
        left_out=len(attacks) - len(tried),
        right=tally([_passed(verdict) for verdict in right]),
        results=tuple(_result(a, v) for a, v in zip(tried, verdicts, strict=True)),
    )


def _result(attack: Attack, verdict: EvalResult) -> AttackResult:
    return AttackResult(
        id=attack.id,
        category=attack.category,
        flipped=_passed(verdict),
        score=verdict.score,
        reason=verdict.reason,
        error=verdict.error or verdict.skipped,
    )


def _passed(verdict: EvalResult) -> bool | None:
    return None if verdict.error is not None else verdict.success


def _told(verdict: EvalResult) -> str:
    if verdict.error is not None:
        return f"error: {verdict.error}"
    if verdict.success:
        return f"passed with {verdict.score}"
    return verdict.skipped or "no verdict: the evaluator has no threshold"


def _nothing_to_flip(evaluator: str, question: str, told: str) -> str:
    return (
        f"{evaluator} fails none of the wrong answers even without an attack, so there is nothing to flip. "
        f"The first one ({question!r}): {told}. Give an evaluator that compares the output with the input, "
        "the expected output or the context, and has a threshold."
    )

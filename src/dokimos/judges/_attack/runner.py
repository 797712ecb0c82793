"""Attacking an evaluator and counting how often its verdict flips."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias, TypedDict, Unpack

from dokimos._core.eval_result import require_one_score
from dokimos._core.results import HARD_ERRORS, EvalResult
from dokimos._core.test_case import EvalTestCase
from dokimos._runtime.concurrency import run_sync
from dokimos._runtime.file_lock import hold_exclusively
from dokimos.errors import ConfigurationError
from dokimos.judges._attack.corpus import Attack, Question, corpus
from dokimos.judges._attack.report import ArmReport, AttackReport, AttackResult, tally
from dokimos.judges._fencing import without_fencing
from dokimos.judges._run_call_store import RunCallStore
from dokimos.judges._run_scope import RunScope, current_scope, enter_scope


class Judged(Protocol):
    """What can be attacked: any evaluator with a threshold."""

    @property
    def name(self) -> str: ...

    async def evaluate_async(self, case: EvalTestCase) -> EvalResult: ...


Progress = Callable[[int, int], None]
"""Is told after each verdict how many there are and how many there will be."""

_Kind: TypeAlias = Literal["honest", "attack", "right"]
AT_ONCE: Final = 8


class AttackOptions(TypedDict, total=False):
    """The options of an attack, for type checkers."""

    attacks: Sequence[Attack] | None
    defences: Iterable[bool]
    parallelism: int
    progress: Progress | None
    calls: Path | None


def attack(evaluator: Judged, **options: Unpack[AttackOptions]) -> AttackReport:
    """Measure which share of the attacks turns an honest fail into a pass.

    First the wrong answers are judged without any attack; a question whose wrong answer does not fail is left
    out, since there is nothing to flip. Right answers are judged too, since a judge that fails everything is
    never flipped.

    Options are `attacks` (the whole corpus unless given), `defences` (True measures with the fencing of
    judged text, False with plain quoting instead; both unless given), `parallelism` (how many cases are
    judged at once, 8 unless given), `progress` (called after each verdict) and `calls` (a file for the
    judge's replies: an attack that was interrupted continues with those in it; replies of no use are asked
    for again).

    Raises:
        ConfigurationError: when the evaluator decides nothing, or no wrong answer fails honestly.
    """
    return run_sync(attack_async(evaluator, **options))


async def attack_async(evaluator: Judged, **options: Unpack[AttackOptions]) -> AttackReport:
    """Do what `attack` does, in a running event loop."""
    return await Attacking(evaluator, **options).run()


class Attacking:
    """An attack that can tell at any time what it has found so far."""

    def __init__(self, evaluator: Judged, **options: Unpack[AttackOptions]) -> None:
        attacks = options.get("attacks")
        self._evaluator = evaluator
        self._attacks = corpus() if attacks is None else tuple(attacks)
        self._arms = tuple(dict.fromkeys(options.get("defences", (True, False))))
        self._parallelism = options.get("parallelism", AT_ONCE)
        if not self._attacks or self._parallelism < 1:
            raise ConfigurationError("An attack needs at least one attempt and a parallelism of at least 1.")
        self._progress = options.get("progress")
        self._calls = options.get("calls")
        self._questions = tuple({a.question.id: a.question for a in self._attacks}.values())
        self._planned = len(self._arms) * (2 * len(self._questions) + len(self._attacks))
        self._excluded = 0
        self._verdicts: dict[tuple[bool, _Kind, str], EvalResult] = {}

    async def run(self) -> AttackReport:
        """Attack to the end, with what an earlier process has been answered.

        Raises:
            ConfigurationError: when there is nothing to flip, or another process writes to the same file.
        """
        with _open_stores(self._calls) as stores:
            # In a task of its own, since the scope would otherwise go on for the caller.
            retry_keys = {key for store in stores for key in store.unusable_keys()}
            scope = RunScope(
                call_stores=stores,
                in_flight={},
                retry_keys=retry_keys,
                evaluator_timeout=current_scope().evaluator_timeout,
            )
            await asyncio.create_task(self._run(scope))
        report = self.report()
        if not any(arm.honest_fails for arm in report.arms):
            raise ConfigurationError(_nothing_to_flip(report))
        return report

    def report(self) -> AttackReport:
        """Return what was found so far; arms that have not begun are not in it."""
        begun = [arm for arm in self._arms if any(key[0] is arm for key in self._verdicts)]
        return AttackReport(
            evaluator=self._evaluator.name,
            arms=tuple(map(self._arm_report, begun)),
            made=len(self._verdicts),
            planned=self._planned - self._excluded,
            errors=sum(_is_missing(kind, verdict) for (_, kind, _), verdict in self._verdicts.items()),
        )

    async def _run(self, scope: RunScope) -> None:
        enter_scope(scope)
        for defended in self._arms:
            await self._judge(defended, "honest", {q.id: q.honest_case() for q in self._questions})
            failing = self._failing(defended)
            tried = {a.id: a.case() for a in self._attacks if a.question.id in failing}
            right = {q.id: q.right_case() for q in self._questions if failing}
            self._excluded += len(self._attacks) + len(self._questions) - len(tried) - len(right)
            await self._judge(defended, "attack", tried)
            await self._judge(defended, "right", right)

    async def _judge(self, defended: bool, kind: _Kind, cases: dict[str, EvalTestCase]) -> None:
        slots = asyncio.Semaphore(self._parallelism)

        async def one(name: str, case: EvalTestCase) -> None:
            async with slots:
                with contextlib.nullcontext() if defended else without_fencing():
                    verdict = require_one_score(await self._evaluator.evaluate_async(case), "The attack")
            self._verdicts[defended, kind, name] = verdict
            if self._progress is not None:
                self._progress(len(self._verdicts), self._planned - self._excluded)

        await asyncio.gather(*(one(name, case) for name, case in cases.items()))

    def _failing(self, defended: bool) -> set[str]:
        """Return the questions whose wrong answer fails without an attack."""
        return {q.id for q, verdict in self._verdicts_of(defended, "honest") if verdict.success is False}

    def _verdicts_of(self, defended: bool, kind: _Kind) -> Iterator[tuple[Question, EvalResult]]:
        for question in self._questions:
            verdict = self._verdicts.get((defended, kind, question.id))
            if verdict is not None:
                yield question, verdict

    def _arm_report(self, defended: bool) -> ArmReport:
        failing = self._failing(defended)
        others = {
            q.id: _describe_verdict(v)
            for q, v in self._verdicts_of(defended, "honest")
            if q.id not in failing
        }
        verdicts = ((a, self._verdicts.get((defended, "attack", a.id))) for a in self._attacks)
        return ArmReport(
            defended=defended,
            honest_fails=len(failing),
            honest_other=tuple(others.items()),
            excluded=sum(a.question.id in others for a in self._attacks),
            right=tally([_RightAnswer(verdict) for _, verdict in self._verdicts_of(defended, "right")]),
            results=tuple(_result(a, verdict) for a, verdict in verdicts if verdict is not None),
        )


@contextlib.contextmanager
def _open_stores(path: Path | None) -> Iterator[tuple[RunCallStore, ...]]:
    """Keep replies in a file inside the block, and take over those that are there already."""
    if path is None:
        yield ()
        return
    with hold_exclusively(path, error=ConfigurationError):
        calls = RunCallStore(path)
        try:
            yield (calls,)
        finally:
            calls.close()
            if not len(calls):
                with contextlib.suppress(OSError):  # Windows deletes no open file: it stays, and does no harm
                    path.unlink()


def _result(attack: Attack, verdict: EvalResult) -> AttackResult:
    return AttackResult(
        id=attack.id,
        category=attack.category,
        has_flipped=_has_passed(verdict),
        score=verdict.score,
        reason=verdict.reason,
        error=verdict.error or verdict.skipped,
        error_kind=_kind(verdict),
    )


class _RightAnswer:
    """The verdict on a right answer, as `tally` counts verdicts."""

    def __init__(self, verdict: EvalResult) -> None:
        self.has_flipped = _has_passed(verdict)
        self.error_kind = _kind(verdict)


def _kind(verdict: EvalResult) -> str | None:
    return verdict.error_kind if verdict.error_kind in HARD_ERRORS else None


def _is_missing(kind: _Kind, verdict: EvalResult) -> bool:
    """Say whether a verdict should be asked for again; that an attack was denied one is a finding."""
    return verdict.error is not None and (kind != "attack" or _kind(verdict) is None)


def _has_passed(verdict: EvalResult) -> bool | None:
    return None if verdict.error is not None else verdict.success


def _describe_verdict(verdict: EvalResult) -> str:
    if verdict.error is not None:
        return f"error: {verdict.error}"
    if verdict.success:
        return f"passed with {verdict.score}"
    return verdict.skipped or "no verdict: the evaluator has no threshold"


def _nothing_to_flip(report: AttackReport) -> str:
    question, verdict = report.arms[0].honest_other[0]
    return (
        f"{report.evaluator} fails none of the wrong answers even without an attack, so there is nothing to "
        f"flip. The first one ({question!r}): {verdict}. Give an evaluator that compares the output with the "
        "input, the expected output or the context, and has a threshold."
    )

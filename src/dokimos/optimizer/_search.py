"""Coordinate descent: numbers in one phase, texts in the next; a change is kept if held-out cases agree."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dokimos.errors import BudgetExceededError, RunError
from dokimos.optimizer._acceptance import Decision, Levels, decide
from dokimos.optimizer._objective import Measured
from dokimos.optimizer._trial import (
    Attempt,
    Bench,
    Candidate,
    Phase,
    SearchState,
    Trial,
    Writer,
    decision_fields,
    trial_fields,
)

if TYPE_CHECKING:
    from dokimos.optimizer._objective import Objective
    from dokimos.optimizer._space import NumericSpace, Proposal
    from dokimos.suites._optimizer_schema import NumericPhase, OptimizerBlock, TextualPhase

Emit: TypeAlias = Callable[..., None]
SHOWN_ATTEMPTS: Final = 3


class Search:
    """One search; everything that changes while it goes on is here."""

    def __init__(
        self,
        block: OptimizerBlock,
        objective: Objective,
        bench: Bench,
        *,
        space: NumericSpace | None = None,
        writer: Writer | None = None,
        emit: Emit = lambda event, **details: None,
        keep: Callable[[SearchState], None] = lambda state: None,
    ) -> None:
        self._block = block
        self._objective = objective
        self._bench = bench
        self._space = space
        self._writer = writer
        self._emit = emit
        self._keep = keep
        self._texts = tuple(axis.path for axis in block.axes.textual)
        phases: tuple[tuple[Phase, bool], ...] = (
            ("numeric", space is not None),
            ("textual", writer is not None),
        )
        self._phases = [phase for phase, is_used in phases if is_used]
        self._levels = Levels(block.alpha, len(self._phases))
        self._number = 0
        self._attempts: list[Attempt] = []

    async def run(self, candidate: Candidate) -> SearchState:
        """Search from what the suite has now.

        Raises:
            RunError: where the suite as it is cannot be measured.
            BudgetExceededError: where the budget does not even allow that.
        """
        state = await self._baseline(candidate)
        try:
            state.stopped = await self._cycles(state)
        except BudgetExceededError as spent:
            state.stopped = str(spent)
        self._keep(state)
        return state

    async def _baseline(self, candidate: Candidate) -> SearchState:
        # Only on training cases: the held-out ones are run when there is something to test.
        measured = await self._bench.run(0, candidate, "train")
        if measured.error is not None or measured.loss is None:
            raise RunError(f"The suite as it is cannot be measured: {measured.error}.")
        if self._block.max_cost_usd is not None and measured.case_cost_usd is None:
            raise RunError(
                "max_cost_usd cannot be checked: the cost of a case is not known. Leave it out, or let the "
                "application report cost_usd."
            )
        baseline = Trial(
            id=0,
            candidate=candidate,
            measured=measured,
            infeasible=self._find_ceiling_fault(measured),
            baseline_loss=measured.loss,
        )
        if self._space is not None:
            self._space.start(candidate.numbers, measured.loss)
        self._emit("baseline", loss=measured.loss, cases=measured.cases, infeasible=baseline.infeasible)
        state = SearchState(baseline=baseline, best=baseline)
        self._keep(state)
        return state

    async def _cycles(self, state: SearchState) -> str:
        for cycle in range(self._block.max_cycles):
            self._emit("cycle_started", cycle=cycle)
            accepted = 0
            for phase in self._phases:
                accepted += await self._phase(state, cycle, phase)
            state.cycles = cycle + 1
            self._levels.end_cycle()
            self._emit("cycle_completed", cycle=cycle, accepted=accepted, loss=state.best.loss)
            if not accepted:
                return f"cycle {cycle} accepted nothing"
        return f"max_cycles ({self._block.max_cycles}) reached"

    async def _phase(self, state: SearchState, cycle: int, phase: Phase) -> bool:
        """Look for a better candidate, and put the best one to the test; says whether it was accepted."""
        limits = self._block.numeric_phase if phase == "numeric" else self._block.textual_phase
        self._emit("phase_started", cycle=cycle, phase=phase, max_trials=limits.max_trials)
        course = _Course(state.best, limits, self._block.min_delta)
        work = self._numeric if phase == "numeric" else self._textual
        while not course.is_over:
            batch = await work(state, cycle, min(self._block.parallel_trials, course.remaining))
            if not batch:
                course.reason = "every point was tried"
            for trial in batch:
                state.trials.append(trial)
                course.add(trial)
                self._emit("trial", **trial_fields(trial))
            self._keep(state)
        challenger = course.best if course.best is not state.best else None
        accepted = challenger is not None and await self._challenge(state, challenger)
        tested = state.trials[challenger.id - 1] if challenger is not None else None
        self._emit(
            "phase_completed", cycle=cycle, phase=phase, trials=course.tried, reason=course.reason,
            challenger=None if tested is None else tested.id, accepted=accepted, loss=state.best.loss,
            holdout=None if tested is None else decision_fields(tested.decision),
        )  # fmt: skip
        self._keep(state)
        return accepted

    async def _numeric(self, state: SearchState, cycle: int, size: int) -> list[Trial]:
        assert self._space is not None, "without numeric axes there is no such phase"
        started: list[tuple[Trial, Proposal]] = []
        for _ in range(size):
            proposal = self._space.propose(self._number + 1)
            if proposal is None:
                break
            candidate = replace(state.best.candidate, numbers=proposal.point)
            started.append((self._start_trial(state, cycle, "numeric", candidate), proposal))
        trials = await _run_all([self._run_trial(trial, len(started)) for trial, _ in started])
        # In the order of the proposals, not of their ends: a resumed search must build the same study.
        for trial, (_, proposal) in zip(trials, started, strict=True):
            self._space.tell(proposal, trial.loss if trial.counts else None)
        return trials

    async def _textual(self, state: SearchState, cycle: int, size: int) -> list[Trial]:
        tried = [trial for trial in state.trials if (trial.cycle, trial.phase) == (cycle, "textual")]
        source = self._source(state, tried)
        axes = [self._texts[(len(tried) + offset) % len(self._texts)] for offset in range(size)]
        started = [self._start_trial(state, cycle, "textual", source.candidate, axis) for axis in axes]
        trials = await _run_all([self._rewrite_and_run(trial, source, len(started)) for trial in started])
        self._attempts += [Attempt(summary=t.summary, loss=t.loss) for t in trials if t.error is None]
        return trials

    def _source(self, state: SearchState, tried: Sequence[Trial]) -> Trial:
        """Return what is rewritten: of a single text the last attempt, of several the best one."""
        usable = [trial for trial in tried if trial.loss is not None and trial.error is None]
        if len(self._texts) == 1:
            return usable[-1] if usable else state.best
        better = [trial for trial in usable if trial.counts]
        return min([state.best, *better], key=lambda trial: trial.loss or 0.0)

    def _start_trial(
        self, state: SearchState, cycle: int, phase: Phase, candidate: Candidate, axis: str | None = None
    ) -> Trial:
        self._number += 1
        self._emit("trial_started", trial_id=self._number, cycle=cycle, phase=phase)
        return Trial(
            id=self._number,
            cycle=cycle,
            phase=phase,
            candidate=candidate,
            axis=axis,
            baseline_loss=state.best.loss,
        )

    async def _rewrite_and_run(self, trial: Trial, source: Trial, at_once: int) -> Trial:
        assert self._writer is not None, "without textual axes there is no such phase"
        assert trial.axis is not None, "a textual trial has an axis"
        attempts = self._attempts[-SHOWN_ATTEMPTS:]
        rewrite = await self._writer.rewrite(trial.id, trial.axis, source, attempts, at_once=at_once)
        if rewrite.error is not None:
            return replace(trial, error=rewrite.error)
        texts = {**trial.candidate.texts, trial.axis: rewrite.text}
        candidate = replace(trial.candidate, texts=texts)
        return await self._run_trial(replace(trial, candidate=candidate, summary=rewrite.summary), at_once)

    async def _run_trial(self, trial: Trial, at_once: int) -> Trial:
        measured = await self._bench.run(trial.id, trial.candidate, "train", at_once=at_once)
        return replace(
            trial, measured=measured, error=measured.error,
            infeasible=None if measured.error else self._find_ceiling_fault(measured),
        )  # fmt: skip

    async def _challenge(self, state: SearchState, challenger: Trial) -> bool:
        """Accept the best candidate of a phase where the held-out cases agree."""
        tested = (
            await self._confirm_on_holdout(state, challenger)
            if self._block.holdout
            else _on_training(state, challenger)
        )
        # Ids count from 1, and trials are added in their order.
        state.trials[challenger.id - 1] = tested
        if not tested.is_accepted:
            return False
        self._levels.carry_over()
        if self._space is not None and tested.phase == "textual":
            # The study compares losses at different points; those under a new text are lower everywhere.
            self._space.shift((state.best.loss or 0.0) - (tested.loss or 0.0))
        state.best = tested
        return True

    async def _confirm_on_holdout(self, state: SearchState, challenger: Trial) -> Trial:
        trials = [state.best, challenger]
        if self._block.parallel_trials > 1 and state.best.holdout is None:
            before, after = await _run_all([self._run_on_holdout(trial, at_once=2) for trial in trials])
        else:
            before, after = [await self._run_on_holdout(trial) for trial in trials]
        # Kept: the accepted candidate is the other side of each later test, and is run on these cases once.
        state.best = replace(state.best, holdout=before)
        if after.error is not None or before.error is not None:
            why = f"The held-out cases could not be measured: {after.error or before.error}."
            decision = Decision(
                accepted=False, improvement=0.0, p=1.0, level=self._levels.next, cases=0, reason=why
            )
            return replace(challenger, holdout=after, decision=decision)
        improvements = self._objective.improvements(before.scores, after.scores)
        block = self._block
        decision = decide(improvements, level=self._levels.next, min_delta=block.min_delta, seed=block.seed)
        over = self._find_ceiling_fault(after)
        if over is not None:
            decision = replace(decision, accepted=False, reason=f"On the held-out cases {over}.")
        return replace(challenger, holdout=after, decision=decision)

    async def _run_on_holdout(self, trial: Trial, *, at_once: int = 1) -> Measured:
        if trial.holdout is not None:
            return trial.holdout
        return await self._bench.run(trial.id, trial.candidate, "holdout", at_once=at_once)

    def _find_ceiling_fault(self, measured: Measured) -> str | None:
        """Say which ceiling a candidate exceeds; a cost that is not known exceeds any."""
        cost, most = measured.case_cost_usd, self._block.max_cost_usd
        if most is not None and (cost is None or cost > most):
            measured_text = "is not known" if cost is None else f"is {cost:.6g} USD"
            return f"the cost of a case {measured_text}, and max_cost_usd is {most:g}"
        latency, longest = measured.latency_ms, self._block.max_latency_ms
        if longest is not None and (latency is None or latency > longest):
            measured_text = "is not known" if latency is None else f"is {latency:.4g} ms"
            return f"the median latency {measured_text}, and max_latency_ms is {longest:g}"
        return None


class _Course:
    """How one phase goes, on the training cases alone."""

    def __init__(self, base: Trial, limits: NumericPhase | TextualPhase, min_delta: float) -> None:
        self.best = base
        self.tried = 0
        self.reason = ""
        self._misses = 0
        self._limits = limits
        self._min_delta = min_delta

    @property
    def remaining(self) -> int:
        return self._limits.max_trials - self.tried

    @property
    def is_over(self) -> bool:
        return bool(self.reason)

    def add(self, trial: Trial) -> None:
        self.tried += 1
        if trial.counts and (self.best.loss or 0.0) - (trial.loss or 0.0) > self._min_delta:
            self.best, self._misses = trial, 0
        else:
            self._misses += 1
        if self.remaining <= 0:
            self.reason = f"max_trials ({self._limits.max_trials}) reached"
        elif self._misses >= self._limits.patience:
            self.reason = f"{self._misses} trials in a row were no better"


def _on_training(state: SearchState, challenger: Trial) -> Trial:
    gain = (state.best.loss or 0.0) - (challenger.loss or 0.0)
    why = "There are no held-out cases: the training cases decided."
    decision = Decision(
        accepted=True, improvement=gain, p=1.0, level=1.0, cases=challenger.measured.cases, reason=why
    )
    return replace(challenger, decision=decision)


async def _run_all(work: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Do all of it; what fails first is raised once the rest has ended, so that what it found is kept."""
    ended = await asyncio.gather(*(asyncio.ensure_future(part) for part in work), return_exceptions=True)
    for outcome in ended:
        if isinstance(outcome, BaseException):
            raise outcome
    return list(ended)

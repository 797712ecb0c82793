"""Texts rewritten by a model: a critic says what is wrong with one, an applier writes another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dokimos.errors import BudgetExceededError, ConfigurationError, JudgeReplyError
from dokimos.judges._fencing import fence, fence_rule
from dokimos.judges._run_scope import RunScope, Usage, counting_usage, enter_scope
from dokimos.optimizer._axes import TextLocation, find_placeholders
from dokimos.optimizer._suite_bench import CUT
from dokimos.optimizer._trial import Attempt, Rewrite, Trial

if TYPE_CHECKING:
    from dokimos.judges._budget import Budget
    from dokimos.judges._protocol import JudgeLM
    from dokimos.optimizer._search_journal import SearchJournal
    from dokimos.suites._optimizer_schema import OptimizerBlock
    from dokimos.suites._schema import SuiteFile

MOST_SUMMARY: Final = 200
REPLY_NAME: Final = "The reply of the model that rewrites prompts"


@dataclass(frozen=True)
class Critique:
    """What the critic answers."""

    diagnosis: str
    """Why the cases went badly, as far as the text is to blame."""
    advice: str
    """What to change in the text."""


@dataclass(frozen=True)
class Revision:
    """What the applier answers."""

    text: str
    """The whole text, rewritten."""
    summary: str
    """One line on what was changed."""


@dataclass(kw_only=True)
class ModelWriter:
    """Rewrites texts with a judge; what it has proposed once is never asked for again."""

    judge: JudgeLM
    locations: Mapping[str, TextLocation]
    journal: SearchJournal
    share: Callable[[str, int], AbstractContextManager[Budget | None]] = lambda step, at_once: nullcontext()
    """Sets aside what a step may spend, and raises `BudgetExceededError` where nothing is left."""
    _tried: dict[str, set[str]] = field(default_factory=dict)

    async def rewrite(
        self, trial: int, axis: str, source: Trial, attempts: Sequence[Attempt], *, at_once: int = 1
    ) -> Rewrite:
        """Propose another text for an axis of the candidate that was tried in `source`."""
        step = f"text-{trial}"

        async def work() -> Rewrite:
            with self.share(step, at_once) as budget:
                return await self._rewrite_in_scope(budget, trial, axis, source, attempts)

        rewrite = await self.journal.once(step, work, lambda tree: Rewrite(**tree))
        if rewrite.error is None:
            self._texts_seen(axis).add(rewrite.text)
        return rewrite

    async def _rewrite_in_scope(
        self, budget: Budget | None, trial: int, axis: str, source: Trial, attempts: Sequence[Attempt]
    ) -> Rewrite:
        from dokimos.experiment._model_calls import ModelCalls
        from dokimos.experiment._run_options import RunOptions

        calls = ModelCalls(RunOptions(budget=budget))  # on the cassette of the environment, as runs are
        try:
            asking = self._ask_for_rewrite(calls.scope(0, None, parallelism=1), trial, axis, source, attempts)
            return await asyncio.create_task(asking)  # in a context of its own, for the scope
        finally:
            calls.close(completed=True)

    async def _ask_for_rewrite(
        self, scope: RunScope, trial: int, axis: str, source: Trial, attempts: Sequence[Attempt]
    ) -> Rewrite:
        from dokimos.judges._ask import ask

        enter_scope(scope)
        location, text = self.locations[axis], source.candidate.texts[axis]
        with counting_usage() as usage:
            try:
                critique = await ask(
                    self.judge,
                    build_critic_prompt(text, source, attempts),
                    Critique,
                    sample=trial,
                    reply_name=REPLY_NAME,
                )
                prompt = build_applier_prompt(text, critique, location)
                revision = await ask(
                    self.judge,
                    prompt,
                    Revision,
                    check=lambda reply: self._check(reply, axis),
                    sample=trial,
                    reply_name=REPLY_NAME,
                )
            except JudgeReplyError as error:
                return Rewrite(error=str(error), **_usage_fields(usage))
            except BudgetExceededError:
                paid = {"run": None, **_usage_fields(usage)}  # what is asked anew is paid for anew
                self.journal.put(f"{CUT}text-{trial}", paid)
                raise
        new = _match_ending(revision.text, text)
        return Rewrite(text=new, summary=revision.summary.strip()[:MOST_SUMMARY], **_usage_fields(usage))

    def _check(self, reply: Revision, axis: str) -> None:
        """Raise `ValueError` for a text that is of no use; the model is asked again, with the reason."""
        location = self.locations[axis]
        text = reply.text.strip()
        if not text:
            raise ValueError("text is empty")
        if len(text) > location.max_chars:
            raise ValueError(f"text has {len(text)} characters, and {location.max_chars} are allowed")
        if text in {known.strip() for known in self._texts_seen(axis)}:
            raise ValueError("this text was tried already; write another one")
        # A prompt that loses ${NAME} breaks the suite, and one that gains another would read the environment.
        placeholders = find_placeholders(text) if location.file is None else frozenset()
        if placeholders != location.variables:
            names = ", ".join(sorted(location.variables)) or "(it has none)"
            raise ValueError(f"the text has to keep its variables {names}, and no others")

    def _texts_seen(self, axis: str) -> set[str]:
        return self._tried.setdefault(axis, {self.locations[axis].text})


def build_critic_prompt(text: str, source: Trial, attempts: Sequence[Attempt]) -> str:
    """Return the question of what is wrong with a text."""
    failures = "\n\n".join(_failure(n, failure) for n, failure in enumerate(source.measured.failures, 1))
    history = "\n".join(
        f"- {attempt.summary or 'no summary'} (loss {_loss(attempt.loss)})" for attempt in attempts
    )
    return (
        "You improve the instructions of an AI application. Its replies to test cases were scored; the loss "
        "is 1 less the mean score, so 0 is best. Say why cases went badly, as far as the instructions are to "
        "blame, and advise how to change them. Advise general rules that would help with unseen cases of the "
        "same kind, never the answers to these ones.\n\n"
        f"{fence_rule()}\n\n"
        f"The loss with these instructions: {_loss(source.loss)}\n\n"
        f"{fence('Instructions', text)}\n\n"
        f"{fence('Cases that went badly', failures or 'None went badly.')}\n\n"
        f"{fence('What was tried before', history or 'Nothing yet.')}"
    )


def build_applier_prompt(text: str, critique: Critique, location: TextLocation) -> str:
    """Return the request for another text."""
    variables = ", ".join(sorted(location.variables))
    keep = f" Keep the placeholders {variables} as they are." if variables else ""
    return (
        "You rewrite the instructions of an AI application by the advice of a critic. Write the whole text "
        "anew, keep what works, and keep its language and its format. It may have at most "
        f"{location.max_chars} characters.{keep} Sum up in one line what you have changed.\n\n"
        f"{fence_rule()}\n\n"
        f"{fence('Instructions', text)}\n\n"
        f"{fence('Diagnosis', critique.diagnosis)}\n\n"
        f"{fence('Advice', critique.advice)}"
    )


def build_writer_judge(block: OptimizerBlock, file: SuiteFile, folder: Path) -> Any:
    """Return who rewrites texts: the optimizer's model, else that of the evaluations, else the suite's.

    Raises:
        ConfigurationError: where none is named, or it does not exist.
    """
    from dokimos.judges._factory import judge
    from dokimos.judges._protocol import as_judge
    from dokimos.suites._metrics import build_judge
    from dokimos.suites._python_references import load_callable

    model = block.model or (file.evaluations.model if file.evaluations else None) or file.model
    if model is None:
        raise ConfigurationError("a textual axis needs a model that rewrites it: name one as model.")
    if not isinstance(model, str):
        return build_judge(model)
    return as_judge(load_callable(model, folder)) if ".py:" in model else judge(model)


def _failure(number: int, failure: Any) -> str:
    lines = [f"Case {number}", f"Input: {failure.input}"]
    lines += [f"Expected: {failure.expected}"] if failure.expected else []
    lines += [f"Reply: {failure.reply}", *(f"Problem: {reason}" for reason in failure.reasons)]
    return "\n".join(lines)


def _loss(loss: float | None) -> str:
    return "unknown" if loss is None else f"{loss:.4f}"


def _match_ending(new: str, old: str) -> str:
    """Return a text that ends as the old one does."""
    return new.strip() + ("\n" if old.endswith("\n") else "")


def _usage_fields(usage: Usage) -> dict[str, Any]:
    metrics = usage.metrics
    if metrics is None:
        return {"cost_usd": None, "tokens": None, "calls": usage.calls}
    return {"cost_usd": metrics.cost_usd, "tokens": metrics.tokens, "calls": usage.calls}

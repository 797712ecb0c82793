"""Calls of models outside a run, with the call stores, the budget and the breakers that a run has."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from dokimos._core.metrics import CallMetrics
from dokimos.errors import BudgetExceededError, DokimosError, JudgeError
from dokimos.experiment._model_calls import ModelCalls
from dokimos.experiment._run_options import RunOptions
from dokimos.judges._run_scope import counting_usage, enter_scope

T = TypeVar("T")


class ModelSession:
    """An async context in which models are asked: `async with ModelSession(options) as session`.

    Replies are kept in the folder, where one is given, and taken from it: what was paid for once is not asked
    again.
    """

    def __init__(
        self,
        options: RunOptions,
        *,
        folder: Path | None = None,
        parallelism: int = 8,
        seed: int | None = None,
    ) -> None:
        self._calls = ModelCalls(options)
        self._folder = folder
        self._parallelism = parallelism
        self._seed = seed
        self._usage = counting_usage()
        self.metrics: CallMetrics | None = None
        """What the calls have cost, after the end."""

    async def __aenter__(self) -> Self:
        self._calls.open(self._folder, retry_unusable=True)
        enter_scope(self._calls.scope(0, self._seed, parallelism=self._parallelism))
        self._counted = self._usage.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._usage.__exit__(kind, error, traceback)
        self.metrics = self._counted.metrics
        self._calls.close(completed=kind is None and self._calls.refusal is None)

    @property
    def refusal(self) -> str | None:
        """Why the budget did not let a call through, None as long as it lets all."""
        return self._calls.refusal

    def warnings(self) -> tuple[str, ...]:
        """Return what a reader of the result should know about the calls, in sentences."""
        return tuple(self._calls.warnings())

    async def gather(
        self, jobs: Sequence[Callable[[], Coroutine[Any, Any, T]]]
    ) -> list[T | JudgeError | None]:
        """Do jobs that ask models, some at once, and return what each gave, in order.

        An error of a model takes the place of its result, also what a function raises that is one; None
        stands for what the budget did not allow.

        Raises:
            DokimosError: another one than those, such as a missing key: the other jobs are cancelled.
        """
        import asyncio

        results: list[T | JudgeError | None] = [None] * len(jobs)
        waiting = iter(enumerate(jobs))

        async def work() -> None:
            for index, job in waiting:
                if self.refusal is not None:
                    return
                try:
                    results[index] = await job()
                except BudgetExceededError:
                    return
                except JudgeError as error:
                    results[index] = error
                except DokimosError:
                    raise
                except Exception as error:  # the model may be any function
                    results[index] = JudgeError(f"{type(error).__name__}: {error}")

        workers = [asyncio.ensure_future(work()) for _ in range(min(self._parallelism, len(jobs)))]
        try:
            await asyncio.gather(*workers)
        finally:
            # Whoever is left would go on asking after the stores are closed, and lose what it pays for.
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return results

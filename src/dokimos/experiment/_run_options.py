"""How a run is carried out: shared by `Experiment`, `evaluate` and the command line."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypedDict, get_args

from dokimos._core import checks
from dokimos._core.checks import is_count, is_number
from dokimos._http.breaker import PATIENCE
from dokimos.errors import ConfigurationError
from dokimos.experiment._executor import Executor, LocalExecutor, ProcessExecutor
from dokimos.judges._budget import Budget
from dokimos.judges._cassette_mode import CassetteMode

_FLAGS: Final = (
    "journal",
    "retry_errors",
    "force",
    "keep_results",
    "auto_close_reporters",
    "fail_fast",
    "quiet",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options that change how a run is carried out, not what it measures.

    Example:
        >>> RunOptions(timeout=30.0, retries=2).retries
        2
    """

    timeout: float | None = None
    """Seconds that one call of the task may take; a call that takes longer is abandoned."""
    evaluator_timeout: float | None = None
    """Seconds that one evaluator may take for one item, with all calls of its judge; one that takes longer is
    abandoned and an error. Built-in evaluators that ask no judge, and those with blocking=False, are not."""
    retries: int = 0
    """How often a failed call of the task is repeated, with exponential back-off."""
    max_errors: int | float | None = None
    """Stop when more items than this errored: an int is a total per repeat, a float in 0..1 a share of the
    items done, looked at from 20 items on."""
    patience: float = PATIENCE
    """Seconds without one success after which an endpoint that had answered is taken to be down; the run ends
    where it cannot do without it, and can be resumed."""
    wait_for_endpoint: float | None = None
    """Seconds to wait for endpoints that do not answer yet, such as services that are starting."""
    fail_fast: bool = False
    """Stop at the first item that fails; the run can be resumed."""
    seed: int | None = None
    """For whatever draws random numbers in the run; recorded with it."""
    processes: int = 1
    """In how many worker processes the task is called and outputs are scored, for work that keeps cores busy;
    async tasks and evaluators with a judge stay in this process. The task must be picklable, such as a
    function at the top level of a module."""
    executor: Executor | None = None
    """Where the task is called and outputs are scored: `LocalExecutor()` in this process,
    `ProcessExecutor(n)` as `processes=n`, `RayExecutor(...)` on a cluster; instead of `processes`."""
    shard: tuple[int, int] | None = None
    """`(i, n)`, 1-based: run only every n-th item, starting with the i-th."""
    journal: bool = True
    """Keep what the task returned on disk as the run goes, so that it can be resumed."""
    run_dir: str | Path | None = None
    """The folder that holds the run folders; `.dokimos/runs` unless given."""
    resume: str | Path | None = None
    """The id or the folder of a run to continue."""
    retry_errors: bool = False
    """With `resume`: repeat the parts that errored."""
    force: bool = False
    """With `resume`: continue although the data set or the configuration changed. Changed examples run again,
    changed evaluators score again."""
    keep_results: bool = True
    """Keep every item in the result; without it only the totals are kept."""
    quiet: bool = False
    """Show nothing: no progress, not the result at the end, and no line on standard error or in the logger
    `dokimos` where the run broke; the result and its `raise_for_status()` say it."""
    progress: bool | None = None
    """False shows none; else a bar in a notebook, one line that stays in place on a terminal, or a line every
    ten seconds where standard error is neither. `quiet` keeps it back."""
    auto_close_reporters: bool = False
    """Close the reporters when the run has ended."""
    redact: Callable[[str], str] | None = None
    """Applied to every text of examples, outputs, scores, evaluator parameters, name, description and command
    line before it is written, reported or kept; keys of maps and names of evaluators stay."""
    budget: Budget | None = None
    """What the calls of task and judges may cost; the run ends, and can be resumed, when it is spent."""
    cassette: str | Path | None = None
    """A file with replies of judges; else the one that `DOKIMOS_CASSETTE` names."""
    cassette_mode: CassetteMode | None = None
    """Whether judges are asked: `record` asks anew, `replay` never asks, `auto` asks what the cassette lacks;
    else what `DOKIMOS_CASSETTE_MODE` says, else `auto`."""
    cache: bool | str | Path = False
    """Keep replies of judges for other runs: True in `.dokimos/cache`, or in this file."""

    def __post_init__(self) -> None:
        for name in _FLAGS:
            checks.require_flag(name, getattr(self, name))
        checks.require_flag("progress", self.progress, or_none=True)
        checks.require_path("run_dir", self.run_dir, "a folder")
        checks.require_path("resume", self.resume, "a run id or a run folder")
        _check_amounts(self)
        _check_calls(self)
        _check_max_errors(self.max_errors)
        if self.shard is not None:
            _check_shard(self.shard)
        _check_executor(self)
        _check_resuming(self)


def executor_of(options: RunOptions) -> Executor:
    """Return where a run with these options calls the task and scores outputs."""
    if options.executor is not None:
        return options.executor
    return LocalExecutor() if options.processes == 1 else ProcessExecutor(options.processes)


def executor_for(items: int | None, options: RunOptions) -> Executor:
    """Return the same for so many items: no process is started that would have nothing to do."""
    executor = executor_of(options)
    if items is None or type(executor) is not ProcessExecutor:
        return executor
    return ProcessExecutor(max(min(executor.processes, items), 1))


class CallOptionKeywords(TypedDict, total=False):
    """The fields of `RunOptions` that concern scoring and calls of models, as keyword arguments."""

    budget: Budget | None
    cassette: str | Path | None
    cassette_mode: CassetteMode | None
    cache: bool | str | Path
    evaluator_timeout: float | None


class ScoringKeywords(CallOptionKeywords, total=False):
    """The fields of `RunOptions` that concern scoring without a task, as keyword arguments."""

    processes: int
    executor: Executor | None


class RunOptionKeywords(ScoringKeywords, total=False):
    """The fields of `RunOptions` as keyword arguments."""

    timeout: float | None
    retries: int
    max_errors: int | float | None
    patience: float
    wait_for_endpoint: float | None
    fail_fast: bool
    seed: int | None
    shard: tuple[int, int] | None
    journal: bool
    run_dir: str | Path | None
    resume: str | Path | None
    retry_errors: bool
    force: bool
    keep_results: bool
    quiet: bool
    progress: bool | None
    auto_close_reporters: bool
    redact: Callable[[str], str] | None


def _check_amounts(options: RunOptions) -> None:
    for name in ("timeout", "evaluator_timeout"):
        seconds = getattr(options, name)
        if seconds is not None and not (is_number(seconds) and 0 < seconds < math.inf):
            raise ConfigurationError(f"{name} must be more than 0 seconds, not {seconds!r:.80}.")
    if not (is_number(options.patience) and 0 <= options.patience < math.inf):
        raise ConfigurationError(f"patience must be 0 seconds or more, not {options.patience!r:.80}.")
    wait = options.wait_for_endpoint
    if wait is not None and not (is_number(wait) and 0 <= wait < math.inf):
        raise ConfigurationError(f"wait_for_endpoint must be 0 seconds or more, not {wait!r:.80}.")
    if not is_count(options.retries) or options.retries < 0:
        raise ConfigurationError(f"retries must be a whole number of 0 or more, not {options.retries!r:.80}.")
    if not is_count(options.processes) or options.processes < 1:
        raise ConfigurationError(
            f"processes must be a whole number of 1 or more, not {options.processes!r:.80}."
        )
    if options.seed is not None and not is_count(options.seed):
        raise ConfigurationError(f"seed must be a whole number, not {options.seed!r:.80}.")
    if options.redact is not None and not callable(options.redact):
        raise ConfigurationError(f"redact must be a function from text to text, not {options.redact!r:.80}.")


def _check_calls(options: RunOptions) -> None:
    if options.budget is not None and not isinstance(options.budget, Budget):
        raise ConfigurationError(f"budget must be a Budget(max_cost_usd=...), not {options.budget!r}.")
    checks.require_path("cassette", options.cassette, "a file")
    if options.cassette_mode not in (None, *get_args(CassetteMode)):
        raise ConfigurationError(
            f"cassette_mode must be record, replay or auto, not {options.cassette_mode!r}."
        )
    if not isinstance(options.cache, bool):
        checks.require_path("cache", options.cache, "True, False or a file", or_none=False)


def _check_max_errors(limit: int | float | None) -> None:
    if limit is None:
        return
    if not is_number(limit):
        raise ConfigurationError(f"max_errors must be a total (int) or a share (float), not {limit!r}.")
    if isinstance(limit, float) and not 0 <= limit <= 1:
        raise ConfigurationError(
            f"max_errors as a share must be in 0..1, not {limit!r}; give an int for a total."
        )
    if limit < 0:
        raise ConfigurationError(f"max_errors must be 0 or more, not {limit!r}.")


def _check_shard(shard: object) -> None:
    pair: tuple[Any, ...] = tuple(shard) if isinstance(shard, tuple | list) else ()
    if len(pair) != 2 or not all(map(is_count, pair)) or not 1 <= pair[0] <= pair[1]:
        raise ConfigurationError(f"shard must be (i, n) with 1 <= i <= n, not {shard!r}.")


def _check_executor(options: RunOptions) -> None:
    if options.executor is None:
        return
    if not isinstance(options.executor, Executor):
        raise ConfigurationError(
            "executor must be LocalExecutor(), ProcessExecutor(n) or RayExecutor(...), not "
            f"{options.executor!r:.80}."
        )
    if options.processes != 1:
        raise ConfigurationError(
            f"processes={options.processes} and executor={options.executor!r:.80} both say where the run "
            "works; give one of them."
        )


def _check_resuming(options: RunOptions) -> None:
    if options.resume is None and options.retry_errors:
        raise ConfigurationError("retry_errors needs resume=RUN: it repeats the errored parts of that run.")
    if options.resume is None and options.force:
        raise ConfigurationError(
            "force needs resume=RUN: it resumes a run whose data or configuration changed."
        )
    if options.resume is not None and not options.journal:
        raise ConfigurationError(
            "resume continues the journal of a run, so journal=False cannot be combined with it."
        )

"""`--estimate` and `--confirm-above`: what a run will cost, before it is run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click

from dokimos._cli.echo import echo
from dokimos._core.text import format_list, pluralize

if TYPE_CHECKING:
    from dokimos._cli.run_settings import RunSettings
    from dokimos._core.results import ExperimentResult
    from dokimos.experiment._estimate import Estimate, Range
    from dokimos.experiment._experiment import Experiment

SAMPLE: Final = 3
"""Items that are run where no earlier run tells what they take."""


def estimate_options(command: Any) -> Any:
    """Options of those who want to know the price first."""
    for option in reversed((
        click.option(
            "--estimate", is_flag=True,
            help=f"Say what the run will take, from an earlier run or {SAMPLE} items, and do not run it.",
        ),
        click.option("--json", "as_json", is_flag=True, help="With --estimate: as JSON."),
        click.option(
            "--confirm-above", type=click.FloatRange(min=0), metavar="USD",
            help="Ask first where the run may cost more; exit with 2 where nobody can be asked.",
        ),
        click.option("--yes", is_flag=True, help="With --confirm-above: run without asking."),
    )):  # fmt: skip
        command = option(command)
    return command


ESTIMATE_OPTIONS: Final = ("estimate", "as_json", "confirm_above", "yes")


def check_estimate(extra: Any) -> None:
    """Refuse options that say nothing without another one."""
    if extra["as_json"] and not extra["estimate"]:
        raise click.UsageError("--json needs --estimate; `-o result.json` writes a result as JSON.")
    if extra["yes"] and extra["confirm_above"] is None:
        raise click.UsageError("--yes needs --confirm-above USD.")
    if extra["estimate"] and (extra["watch"] or extra["resume"] is not None):
        raise click.UsageError("--estimate runs nothing, so --watch and --resume cannot be combined with it.")


def estimate_first(target: str, settings: RunSettings) -> RunSettings | None:
    """Say what the run will take, and ask where that was wanted; None where it is not to be run.

    Raises:
        ConfigurationError: where it may cost too much, and nobody can be asked or the answer is no.
    """
    extra = settings.extra
    limit: float | None = extra.get("confirm_above")
    if not extra.get("estimate") and (limit is None or extra.get("yes")):
        return settings
    estimate, sample = _estimate(target, settings)
    if extra.get("as_json"):
        from dokimos._core.wire import to_json

        echo(to_json(estimate, indent=2))
    elif extra.get("estimate") or not extra.get("quiet"):
        for line in estimate_lines(estimate, is_sample=sample is not None):
            # Where a run follows, standard output is for its result.
            echo(line, err=not extra.get("estimate"))
    if limit is None or extra.get("estimate"):
        return None
    _confirm(estimate, limit)
    return settings if sample is None else _after_sample(settings, sample)


def estimate_lines(estimate: Estimate, *, is_sample: bool) -> Iterator[str]:
    """Yield the estimate for people."""
    if not estimate.seen and estimate.errored:
        errored = pluralize(estimate.errored, "item")
        items = pluralize(estimate.items, "item")
        yield f"Nothing could be estimated for {items}: all of the {errored} tried for it errored."
        yield "! Make the application work first; dokimos run shows the errors."
        return
    source = f"{pluralize(estimate.seen, 'item')} of {estimate.source}"
    source = f"{pluralize(estimate.seen, 'item')} run for this" if is_sample else source
    yield f"Estimate for {pluralize(estimate.items, 'item')}, from {source}:"
    yield f"  calls    {'not known' if estimate.calls is None else f'about {estimate.calls:,}'}"
    yield f"  tokens   {_range(estimate.tokens, _whole)}"
    yield f"  cost     {_range(estimate.cost_usd, _dollars)}"
    yield f"  time     {_range(estimate.seconds, _time)}"
    if is_sample:
        spent = "nothing that is known" if not estimate.spent_usd else _dollars(estimate.spent_usd)
        yield f"  Running those {estimate.seen + estimate.errored} has cost {spent}."
    for model in estimate.unpriced:
        yield f"! The price of {model} is not known: add it to the prices of the experiment or the judge."
    if not estimate.is_task_measured:
        yield "! The application does not say what it costs, so only the judges are counted."
    if estimate.errored:
        verb = "is" if estimate.errored == 1 else "are"
        yield f"! {pluralize(estimate.errored, 'item')} errored and {verb} not counted."


def _estimate(target: str, settings: RunSettings) -> tuple[Estimate, Path | None]:
    """Return the estimate, and the run of the sample where one had to be run."""
    from dokimos._cli.target_experiment import build_experiment
    from dokimos.experiment._estimate import estimate_run
    from dokimos.experiment._run_folders import find_run, runs_root
    from dokimos.judges._optional_protocols import CountsOwnCalls

    experiment = build_experiment(target, settings)
    chosen = _marks(experiment)
    items = len(chosen) * experiment.runs
    root = runs_root(settings.extra.get("run_dir"))
    counts_own = isinstance(experiment.task, CountsOwnCalls) and experiment.task.counts_own_calls
    for earlier, result in _earlier_results(target, root, experiment):
        return estimate_run(
            result,
            items=items,
            parallelism=experiment.parallelism,
            calls=_calls(earlier, result, counts_own),
            seconds=_seconds_per_item(result, result.provenance.parallelism or 1),
        ), None
    root = _sample_root(settings, root)
    result = _run_sample(target, settings, experiment, chosen, root)
    folder = None if result.run_id is None else find_run(result.run_id, root)
    return estimate_run(
        result,
        items=items,
        parallelism=experiment.parallelism,
        calls=None if folder is None else _calls(folder, result, counts_own),
        seconds=_seconds_per_item(result, min(experiment.parallelism, result.total_count or 1)),
        spent_usd=_sum_costs(result),
    ), folder


def _marks(experiment: Experiment) -> list[str]:
    from dokimos.experiment._run_part import hash_examples

    marks = [mark for _, mark in hash_examples(experiment.dataset)]
    shard = experiment.options.shard
    return marks if shard is None else marks[shard[0] - 1 :: shard[1]]


def _earlier_results(
    target: str, root: Path, experiment: Experiment
) -> Iterator[tuple[Path, ExperimentResult]]:
    """Yield runs of the same with enough items, in which all that was asked was paid for."""
    from itertools import islice

    from dokimos._cli.loop import list_target_runs
    from dokimos.errors import DokimosError
    from dokimos.experiment._reuse import MOST_RUNS, EarlierRun
    from dokimos.experiment._run_identity import RunIdentity
    from dokimos.experiment._run_loading import load_run
    from dokimos.experiment._run_manifest import read_manifest

    now = RunIdentity.of(experiment)
    for folder in islice(list_target_runs(target, root), MOST_RUNS):
        try:
            record = EarlierRun.of(folder).record
            identity = RunIdentity.from_manifest(read_manifest(folder))
            if record is None or identity.task != now.task or not identity.has_evaluators_of(now):
                continue
            if now.evaluators is None and record.data_changes():
                continue  # a suite, of which the metrics may have changed
            result = load_run(folder)
        except (DokimosError, KeyError):
            continue
        answered = sum(item.error is None for item in result.item_results)
        # A run answered from the cache, or with errors, would make the next one look cheap.
        if answered >= min(SAMPLE, len(result.item_results)) and answered and _is_paid(folder):
            yield folder, result


def _is_paid(folder: Path) -> bool:
    """Say whether no reply came from elsewhere: the cache, a cassette, an earlier run."""
    from dokimos.judges._run_call_store import CALLS_FILE, RunCallStore

    path = folder / CALLS_FILE
    if not path.is_file():
        return True
    calls = RunCallStore(path)
    try:
        return all(one.reply.metrics is not None for one in calls.recordings())
    finally:
        calls.close()


def _calls(folder: Path, result: ExperimentResult, counts_own: bool) -> int:
    """Count the calls of models that a run has kept, and those of a task that tells what an item costs."""
    from dokimos.judges._run_call_store import CALLS_FILE, RunCallStore

    path = folder / CALLS_FILE
    stored = sum(1 for _ in RunCallStore(path).costs()) if path.is_file() else 0
    return stored if counts_own else stored + result.summary.tokenized


def _seconds_per_item(result: ExperimentResult, parallelism: int) -> float | None:
    from dokimos.reporting._console import duration_seconds

    elapsed = duration_seconds(result)
    return None if elapsed is None or not result.total_count else elapsed * parallelism / result.total_count


def _sum_costs(result: ExperimentResult) -> float | None:
    costs = [result.summary.metrics.cost_usd, result.summary.judging.metrics.cost_usd]
    priced = [cost for cost in costs if cost is not None]
    return sum(priced) if priced else None


def _sample_root(settings: RunSettings, root: Path) -> Path:
    """Return where the sample is kept: under `--no-journal`, in a folder that goes with the command.

    Without it, the run would have to pay for the same items again.
    """
    if settings.has_journal:
        return root
    folder = TemporaryDirectory(prefix="dokimos-estimate-", ignore_cleanup_errors=True)
    return Path(click.get_current_context().with_resource(folder))


def _run_sample(
    target: str, settings: RunSettings, experiment: Experiment, chosen: list[str], root: Path
) -> ExperimentResult:
    """Run the first, the middle and the last item for real."""
    from dokimos._cli.target_experiment import run_target
    from dokimos.experiment._run_part import Part

    # Spread over the data, since files are often sorted by length, topic or difficulty.
    indices = sorted({0, len(chosen) // 2, len(chosen) - 1})[:SAMPLE]
    part = Part(reason="estimate", total=len(chosen), hashes=tuple(chosen[index] for index in indices))
    if not settings.extra.get("quiet"):
        echo(
            f"There is no earlier run to estimate from: running {pluralize(len(indices), 'item')}.", err=True
        )
    storage = {"run_dir": str(root), "no_journal": False, "is_sample": True}
    extra = {**settings.extra, "quiet": True, "reuse": None, **storage}
    sampled = replace(settings, part=part.tree(), limit=None, shard=None, runs=1, extra=extra)
    return run_target(target, sampled)


def _after_sample(settings: RunSettings, sample: Path) -> RunSettings:
    """Let the run take over what its estimate has paid for."""
    from dokimos.experiment._reuse import EarlierOutputs

    reuse = settings.extra.get("reuse") or EarlierOutputs([], {})
    reuse = replace(reuse, folders=[*reuse.folders, sample], replies={sample: True, **reuse.replies}, note="")
    return replace(settings, extra={**settings.extra, "reuse": reuse})


def _confirm(estimate: Estimate, limit: float) -> None:
    """Ask whether to run, unless it costs little enough."""
    from dokimos.errors import ConfigurationError

    cost = estimate.cost_usd
    if estimate.seen and not estimate.unpriced and (cost is None or cost.high <= limit):
        return
    if not estimate.seen:
        what = f"What the run costs is not known ({pluralize(estimate.errored, 'item')} run for it errored)"
    elif estimate.unpriced:
        what = f"What the run costs is not known ({format_list(list(estimate.unpriced))} without a price)"
    else:
        what = f"The run may cost {_range(cost, _dollars)}, above --confirm-above {limit:g}"
    # In CI a question would hang until the job times out.
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigurationError(f"{what}, and there is no terminal to ask on. To run it anyway, give --yes.")
    if not click.confirm(f"{what}. Run it?", err=True):
        raise ConfigurationError("The run was declined.")


def _range(estimate: Range | None, shown: Any) -> str:
    if estimate is None:
        return "not known"
    low, high = shown(estimate.low), shown(estimate.high)
    return f"about {low}" if low == high else f"{low} to {high}"


def _whole(number: float) -> str:
    """Round to two digits: more would promise what nobody knows."""
    return f"{float(f'{number:.2g}'):,.0f}"


def _dollars(usd: float) -> str:
    return f"${usd:.2f}" if usd >= 1 else f"${float(f'{usd:.2g}'):g}" if usd >= 0.0001 else "$0"


def _time(seconds: float) -> str:
    if seconds < 1:
        return "1 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

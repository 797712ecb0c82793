"""`dokimos run`: an experiment from Python, or recorded outputs from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from dokimos.cli.estimate import ESTIMATE_OPTIONS, check_estimate, estimate_first, estimate_options
from dokimos.cli.loop import LOOP_OPTIONS, loop_options, prepare_loop, resolve_target
from dokimos.cli.options import (
    allow_errors_option,
    call_keywords,
    call_options,
    check_outputs,
    check_volume,
    complete_runs,
    endpoint_options,
    evaluator_option,
    fail_under_option,
    output_option,
    run_dir_option,
    volume_options,
)
from dokimos.cli.watched import check_watch, reporting_files

if TYPE_CHECKING:
    from dokimos.core.results import ExperimentResult
    from dokimos.experiment.experiment import Experiment
    from dokimos.experiment.required_levels import RequiredLevel


_OPTIONS: Final = ("timeout", "retries", "wait_for_endpoint", "patience")
"""Settings that are options of a run as they are."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What a run was asked to do on the command line; kept with it, so that `resume` can do it again."""

    specs: Sequence[str] = ()
    columns: Sequence[str] = ()
    parallelism: int | None = None
    runs: int | None = None
    limit: int | None = None
    filters: Sequence[str] = ()
    shard: str | None = None
    timeout: float | None = None
    evaluator_timeout: float | None = None
    retries: int | None = None
    wait_for_endpoint: float | None = None
    patience: float | None = None
    max_errors: str | None = None
    allow_errors: str | None = None
    name: str | None = None
    budget_usd: float | None = None
    max_tokens: int | None = None
    max_calls: int | None = None
    record: str | None = None
    replay: str | None = None
    cache: bool = False
    part: Mapping[str, Any] | None = None
    """The items that were chosen, as `Part.tree` has them."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Options of this start only; not kept."""

    def to_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "extra"}
        return {name: value for name, value in values.items() if value not in (None, (), [], False)}


@click.command()
@click.argument("target", required=False, shell_complete=lambda *_: [])
@evaluator_option(required=False)
@output_option
@click.option("-j", "--parallelism", type=click.IntRange(min=1), help="Items at once.")
@click.option("--runs", type=click.IntRange(min=1), help="Repeats of the whole data set.")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Only the first N items (after filters).")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only items with this metadata; id:PATTERN for ids. Repeatable, all must hold.",
)
@click.option(
    "--columns",
    "columns",
    multiple=True,
    metavar="FROM=TO",
    help="Read a column of a data file as another, such as question=input. Repeatable.",
)
@click.option("--shard", metavar="I/N", help="Only every N-th item, starting with the I-th.")
@click.option("--name", help="Name of the experiment.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Abandon a call of the task after this long.")
@click.option("--retries", type=click.IntRange(min=0), help="Repeat a failed call of the task this often.")
@click.option(
    "--max-errors", metavar="N|SHARE", help="Stop when more items errored: a number, or a share such as 0.2."
)
@click.option(
    "--resume",
    metavar="RUN",
    shell_complete=complete_runs,
    help="Go on with this run ('latest' for the last one).",
)
@click.option("--retry-errors", is_flag=True, help="With --resume: repeat what errored.")
@click.option("--force", is_flag=True, help="With --resume: go on although data or configuration changed.")
@click.option("--fail-fast", is_flag=True, help="Stop at the first item that fails.")
@loop_options
@estimate_options
@endpoint_options
@allow_errors_option
@call_options
@click.option("--no-journal", is_flag=True, help="Keep nothing on disk; the run cannot be resumed.")
@run_dir_option
@fail_under_option
@volume_options
def run(
    target: str | None,
    outputs: Sequence[str],
    fail_under: Sequence[str],
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> int:
    """Run an experiment, or score recorded outputs.

    TARGET is module:attribute or file.py:attribute (an Experiment, or a function that returns one), or a data
    file whose rows carry recorded outputs, scored by the evaluators given with -e.

    \b
    dokimos run evals.py
    dokimos run my.package:experiment -j 8 --runs 3 -o out/report.html
    dokimos run answers.jsonl -e exact_match -e numeric:relative_tolerance=0.01 --fail-under 0.9
    """
    for flag in ("retry_errors", "force"):
        if given[flag] and given["resume"] is None:
            raise click.UsageError(f"--{flag.replace('_', '-')} needs --resume RUN.")
    if given["no_journal"] and given["resume"] is not None:
        raise click.UsageError("--resume goes on with a journal, so --no-journal cannot be combined with it.")
    names = (
        "resume",
        "retry_errors",
        "force",
        "fail_fast",
        "no_journal",
        "run_dir",
        *LOOP_OPTIONS,
        *ESTIMATE_OPTIONS,
    )
    extra = {name: given.pop(name) for name in names}
    target, settings = resolve_target(target, RunSettings(**given, extra={**extra, "quiet": quiet}))
    check_estimate(settings.extra)
    if settings.extra["watch"]:
        check_watch(settings.extra, target)
        from dokimos.cli.watch import strip_watch_option, watch

        return watch(strip_watch_option())
    with reporting_files(target):
        return execute(target, settings, outputs=outputs, fail_under=fail_under, quiet=quiet, verbose=verbose)


def execute(
    target: str,
    settings: RunSettings,
    *,
    outputs: Sequence[str],
    fail_under: Sequence[str],
    quiet: bool,
    verbose: bool,
) -> int:
    """Carry out a run and present its result; what is cut short is presented too."""
    if is_suite(target):
        from dokimos.cli.test import execute_suite

        return execute_suite(
            target, settings, outputs=outputs, fail_under=fail_under, quiet=quiet, verbose=verbose
        )
    from dokimos.cli.outcome import Criteria, Presentation
    from dokimos.errors import DokimosError, RunInterrupted
    from dokimos.experiment.required_levels import parse_levels
    from dokimos.runtime.opened_files import files_read

    files_read.start()
    check_volume(quiet, verbose)
    check_outputs(outputs)
    wanted = parse_levels(fail_under)
    loop = prepare_loop(target, settings)
    if loop is None:
        return 0
    planned = estimate_first(target, loop.settings)
    if planned is None:
        return 0
    settings = planned
    kept = not settings.extra.get("no_journal")
    criteria = Criteria.of(wanted, settings.allow_errors)
    presentation = Presentation(
        outputs=outputs, criteria=criteria, quiet=quiet, verbose=verbose, stored=bool(kept)
    )
    try:
        result = _run(target, settings, wanted)
    except (RunInterrupted, DokimosError) as cut_short:
        if cut_short.result is not None:
            presentation.print(cut_short.result)
            loop.tell_changes(cut_short.result)
        raise
    try:
        return presentation.show(result)
    finally:
        loop.tell_changes(result)


def carry_out(target: str, settings: RunSettings) -> ExperimentResult:
    """Carry out a run for a command that presents something else than its result."""
    return _run(target, settings, ())


def _run(target: str, settings: RunSettings, wanted: Sequence[RequiredLevel]) -> ExperimentResult:
    from dokimos.cli.targets import absolute_target, evaluation_file
    from dokimos.experiment.record import Launch
    from dokimos.experiment.run_part import Part
    from dokimos.runtime.opened_files import files_read

    experiment = build_experiment(target, settings)
    files_read.evaluation = evaluation_file(target)
    if not callable(experiment.evaluators):
        for level in wanted:
            level.check_evaluator(experiment.evaluators)
    extra = settings.extra
    options: dict[str, Any] = {
        "journal": not extra.get("no_journal"),
        "progress": False if extra.get("quiet") else None,
    }
    for name in ("resume", "retry_errors", "force", "fail_fast", "run_dir"):
        if extra.get(name) not in (None, False):
            options[name] = extra[name]
    launch = Launch(
        target=absolute_target(target),
        settings=settings.to_json(),
        part=None if settings.part is None else Part.of_tree(settings.part),
        reuse=extra.get("reuse"),
        is_sample=bool(extra.get("is_sample")),
    )
    return experiment._launch(launch, options)


def is_suite(target: str) -> bool:
    """Say whether a target is a suite in YAML."""
    return target.lower().endswith((".yaml", ".yml"))


def _plan_experiment(target: str, settings: RunSettings) -> tuple[Experiment, RunSettings]:
    """Return the experiment of a target, and the settings that it has not taken itself."""
    if not is_suite(target):
        return _experiment(target, settings), settings
    from dokimos.cli.test import suite_experiment
    from dokimos.errors import ConfigurationError

    if settings.specs or settings.columns:
        raise ConfigurationError("-e and --columns are for data files; a suite names its metrics itself.")
    return suite_experiment(target, settings)


def plan_experiment(target: str, settings: RunSettings) -> Experiment:
    """Return the experiment of a target as it stands, before the settings choose from its rows."""
    return _plan_experiment(target, settings)[0]


def build_experiment(target: str, settings: RunSettings) -> Experiment:
    """Return the experiment of a target as it is to be run."""
    experiment, adjustments = _plan_experiment(target, settings)
    return _adjust(experiment, adjustments)


def _experiment(target: str, settings: RunSettings) -> Experiment:
    from dokimos.cli.specs import build_evaluators
    from dokimos.cli.targets import load_experiment, split_target
    from dokimos.errors import ConfigurationError

    known: Experiment | None = settings.extra.get("experiment")
    if known is not None:
        return known
    added = build_evaluators(settings.specs)
    if split_target(target) is None:
        return _read_data_file(target, added, settings)
    if settings.columns:
        raise ConfigurationError("--columns is for data files; in Python give columns=... to Dataset.load.")
    experiment = load_experiment(target)
    if not added:
        return experiment
    if callable(experiment.evaluators):
        raise ConfigurationError("-e cannot add to an experiment that chooses evaluators for each example.")
    return replace(experiment, evaluators=[*experiment.evaluators, *added])


def _read_data_file(uri: str, evaluators: Sequence[Any], settings: RunSettings) -> Experiment:
    from dokimos.cli.specs import parse_columns
    from dokimos.datasets.dataset import Dataset
    from dokimos.datasets.recorded import recorded_task
    from dokimos.errors import ConfigurationError
    from dokimos.experiment.experiment import Experiment

    if not evaluators:
        if uri != "-":
            Dataset.stream(uri)  # a file that is not there is the first thing to say
        raise ConfigurationError(
            f"{uri} is a data file: say with -e how to score it, such as -e exact_match "
            "(dokimos evaluators lists them). For Python give file.py:attribute or module:attribute."
        )
    dataset = Dataset.load(uri, columns=parse_columns(settings.columns))
    return Experiment(dataset, recorded_task(), evaluators, name=dataset.name)


def _adjust(experiment: Experiment, settings: RunSettings) -> Experiment:
    from dokimos.cli.specs import parse_error_limit, parse_shard

    changes: dict[str, Any] = {
        name: getattr(settings, name)
        for name in ("parallelism", "runs", "name")
        if getattr(settings, name) is not None
    }
    if settings.filters or settings.limit is not None or settings.part is not None:
        changes["dataset"] = select_rows(experiment.dataset, settings)
    options: dict[str, Any] = {
        name: value for name in _OPTIONS if (value := getattr(settings, name)) is not None
    }
    options |= call_keywords(vars(settings), experiment.options.budget)
    if settings.max_errors is not None:
        options["max_errors"] = parse_error_limit(settings.max_errors, "--max-errors")
    if settings.shard is not None:
        options["shard"] = parse_shard(settings.shard)
    return replace(experiment, **changes, options=replace(experiment.options, **options))


def select_rows(dataset: Any, settings: RunSettings) -> Any:
    """Return the rows that the settings ask for. Raises `ConfigurationError` where none is left."""
    from dokimos.cli.specs import example_filter
    from dokimos.errors import ConfigurationError
    from dokimos.experiment.run_part import Part, subset_of

    if settings.filters or settings.limit is not None:
        keep = example_filter(settings.filters)
        chosen = list(islice((example for example in dataset if keep(example)), settings.limit))
        if not chosen:
            raise ConfigurationError(
                f"The filter {' '.join(settings.filters)} leaves none of the examples of {dataset.name!r}."
            )
        dataset = subset_of(dataset, chosen)
    return dataset if settings.part is None else Part.of_tree(settings.part).select(dataset)

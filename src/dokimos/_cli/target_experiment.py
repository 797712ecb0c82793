"""The experiment of a TARGET, from Python, from recorded outputs or from a suite: build it, and run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dokimos._cli.echo import echo
from dokimos._cli.executors import executor_changes
from dokimos._cli.options import call_keywords

if TYPE_CHECKING:
    from dokimos._cli.run_settings import RunSettings
    from dokimos._core.results import ExperimentResult
    from dokimos.experiment._experiment import Experiment
    from dokimos.experiment._required_levels import RequiredLevel
    from dokimos.suites._suite import Suite

_OPTIONS: Final = ("timeout", "retries", "wait_for_endpoint", "patience")
"""Settings that are options of a run as they are."""


def run_target(target: str, settings: RunSettings, levels: Sequence[RequiredLevel] = ()) -> ExperimentResult:
    """Run the experiment of a target. Raises `ConfigurationError` where `levels` name no evaluator of it."""
    from dokimos._cli.server_options import add_server_reporter
    from dokimos._cli.targets import absolute_target, find_python_file
    from dokimos._runtime.file_access import files_read
    from dokimos.experiment._run_description import Launch
    from dokimos.experiment._run_part import Part

    experiment = add_server_reporter(build_experiment(target, settings), settings)
    # After the import: the file of a module is known only then.
    files_read.evaluation = find_python_file(target)
    if not callable(experiment.evaluators):
        for level in levels:
            level.check_evaluator(experiment.evaluators)
    extra = settings.extra
    options: dict[str, Any] = {
        "journal": settings.has_journal,
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
        needs_all_items=extra.get("needs_all_items", True),
        on_item_left_out=extra.get("on_item_left_out"),
        is_sample=bool(extra.get("is_sample")),
    )
    return experiment._launch(launch, options)


def is_suite(target: str) -> bool:
    """Say whether a target is a suite in YAML."""
    return target.lower().endswith((".yaml", ".yml"))


def plan_experiment(target: str, settings: RunSettings) -> Experiment:
    """Return the experiment of a target as it stands, before the settings choose from its rows."""
    return _plan_experiment(target, settings)[0]


def build_experiment(target: str, settings: RunSettings) -> Experiment:
    """Return the experiment of a target as it is to be run."""
    experiment, adjustments = _plan_experiment(target, settings)
    return _adjust(experiment, adjustments)


def _plan_experiment(target: str, settings: RunSettings) -> tuple[Experiment, RunSettings]:
    """Return the experiment of a target, and the settings that it has not taken itself."""
    if not is_suite(target):
        return _experiment(target, settings), settings
    from dokimos.errors import ConfigurationError

    if settings.specs or settings.columns:
        raise ConfigurationError("-e and --columns are for data files; a suite names its metrics itself.")
    suite = settings.extra.get("suite") or load_target_suite(target, settings)
    return suite.experiment(), replace(settings, timeout=None)


def _experiment(target: str, settings: RunSettings) -> Experiment:
    from dokimos._cli.specs import build_evaluators
    from dokimos._cli.targets import load_experiment, parse_target
    from dokimos.errors import ConfigurationError

    planned: Experiment | None = settings.extra.get("experiment")
    if planned is not None:
        return planned
    added = build_evaluators(settings.specs)
    if parse_target(target) is None:
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
    from dokimos._cli.specs import parse_columns
    from dokimos.datasets._answer_replay import recorded_task
    from dokimos.datasets._dataset import Dataset
    from dokimos.errors import ConfigurationError
    from dokimos.experiment._experiment import Experiment

    if not evaluators:
        if uri != "-":
            Dataset.stream(uri)  # a file that is not there is the first thing to say
        raise ConfigurationError(
            f"{uri} is a data file: say with -e how to score it, such as -e exact_match "
            "(dokimos evaluators lists them). For Python give file.py:attribute or module:attribute."
        )
    dataset = Dataset.load(uri, columns=parse_columns(settings.columns))
    return Experiment(dataset, recorded_task(), evaluators, name=dataset.name)


def load_target_suite(target: str, settings: RunSettings) -> Suite:
    """Load a suite with the variables of its `.env` file; warnings are printed."""
    from dokimos.suites._environment import export_dotenv
    from dokimos.suites._loader import load_suite

    export_dotenv(Path(target).resolve().parent)
    loaded = load_suite(target, llm_timeout=settings.timeout)
    for warning in loaded.warnings:
        echo(f"! {warning}", err=True)
    return loaded


def _adjust(experiment: Experiment, settings: RunSettings) -> Experiment:
    from dokimos._cli.specs import parse_error_limit, parse_shard

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
    options |= executor_changes(settings)
    options |= call_keywords(vars(settings), experiment.options.budget)
    if settings.max_errors is not None:
        options["max_errors"] = parse_error_limit(settings.max_errors, "--max-errors")
    if settings.shard is not None:
        options["shard"] = parse_shard(settings.shard)
    return replace(experiment, **changes, options=replace(experiment.options, **options))


def select_rows(dataset: Any, settings: RunSettings) -> Any:
    """Return the rows that the settings ask for. Raises `ConfigurationError` where none is left."""
    from dokimos._cli.specs import example_filter
    from dokimos.errors import ConfigurationError
    from dokimos.experiment._run_part import Part, subset_of

    if settings.filters or settings.limit is not None:
        keep = example_filter(settings.filters)
        chosen = list(islice((example for example in dataset if keep(example)), settings.limit))
        if not chosen:
            raise ConfigurationError(
                f"No example of {dataset.name!r} matches the filter {' '.join(settings.filters)}."
            )
        dataset = subset_of(dataset, chosen)
    return dataset if settings.part is None else Part.of_tree(settings.part).select(dataset)

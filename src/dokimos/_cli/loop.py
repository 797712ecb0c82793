"""What makes a run one of a loop: only what failed, outputs reused, and what changed since the last one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dokimos._cli.echo import echo
from dokimos._cli.options import complete_runs
from dokimos._cli.watch_report import is_watched

if TYPE_CHECKING:
    from dokimos._cli.run_settings import RunSettings
    from dokimos._core.results import ExperimentResult
    from dokimos.experiment._experiment import Experiment
    from dokimos.experiment._failed_items import FailedSelection
    from dokimos.experiment._reuse import EarlierOutputs, EarlierRun

NEWEST: Final = "newest"
"""Stands for a RUN that was not given."""
NOT_INHERITED: Final = frozenset({
    "limit", "filters", "shard", "record", "part", "budget_usd", "max_tokens", "max_calls", "allow_errors",
})  # fmt: skip
"""Settings of the run that failed which are not those of running its failed items again."""
MOST_REPLIES: Final = 5
"""So many of the last runs are searched for replies of models."""


def loop_options(command: Any) -> Any:
    """Options of those who change something and look what it does."""
    for option in reversed((
        click.option(
            "--failed", is_flag=False, flag_value=NEWEST, metavar="[RUN]", shell_complete=complete_runs,
            help="Only what failed or errored in RUN; in the newest run of TARGET unless given.",
        ),
        click.option(
            "--reuse", is_flag=False, flag_value=NEWEST, metavar="[RUN]", shell_complete=complete_runs,
            help="Take outputs from RUN, or the last runs, where neither application nor row has changed.",
        ),
        click.option(
            "--watch", is_flag=True,
            help="Run again whenever a file of the application or of its evaluation changes.",
        ),
        click.option("--no-reuse", is_flag=True, help="With --failed and --watch: reuse nothing."),
    )):  # fmt: skip
        command = option(command)
    return command


LOOP_OPTIONS: Final = ("failed", "reuse", "no_reuse", "watch")


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A run as it is to be carried out, and what to say of it in the end."""

    settings: RunSettings
    selection: FailedSelection | None = None
    run_id: str | None = None
    """The run in which the items had failed."""
    previous: Path | None = None
    """The run with which a watched one is compared."""
    repeats: int = 1
    """How often each item is run."""

    @property
    def compares_items(self) -> bool:
        """Whether `print_changes` says anything, for which it looks at all items."""
        return self.previous is not None or self.selection is not None

    def print_changes(self, result: ExperimentResult) -> None:
        """Say what became of the items that had failed, or what has changed since the last run."""
        if self.previous is not None:
            from dokimos._cli.changes import compare_with_previous

            for line in compare_with_previous(self.previous, result, repeats=self.repeats):
                echo(line)
        if self.selection is not None and self.run_id is not None:
            from dokimos._cli.failure_rerun import render_changes

            for line in render_changes(self.selection, result, self.run_id, repeats=self.repeats):
                echo(line)


def resolve_target(
    target: str | None, settings: RunSettings, *, of_suites: bool = False
) -> tuple[str, RunSettings]:
    """Return the target and the settings, taken from the run that failed where they are not given.

    Without a target that is the newest run, or the newest `of_suites`.

    Raises:
        click.UsageError: where there is no target.
    """
    # Both options take a value or none, so click reads `--failed evals.py` as a run called evals.py.
    for name in ("failed", "reuse"):
        value = settings.extra.get(name)
        if target is None and names_target(value):
            target = value
            settings = replace(settings, extra={**settings.extra, name: NEWEST})
    failed = settings.extra.get("failed")
    if failed is None:
        if target is None:
            raise click.UsageError("Missing argument 'TARGET'.")
        return target, settings
    _check_failed(settings)
    folder = _find_failed_run(failed, target, settings, of_suites)
    launch = _read_launch(folder)
    if launch is None and target is None:
        raise click.UsageError(f"Run {folder.name} was started from Python: give the TARGET, too.")
    settings = replace(settings, extra={**settings.extra, "failed": str(folder)})
    return target or launch["target"], _with_settings_of(launch, settings)


def prepare_loop(target: str, settings: RunSettings) -> Loop | None:
    """Choose the items and the outputs to reuse; None where there is nothing to run, which has been said."""
    extra = settings.extra
    is_estimated = extra.get("estimate") or extra.get("confirm_above") is not None
    is_loop = extra.get("failed") is not None or extra.get("reuse") is not None or is_watched()
    if not is_loop and not is_estimated:
        return Loop(settings=settings)
    from dokimos._cli.target_experiment import plan_experiment

    experiment = plan_experiment(target, settings)
    if extra.get("suite") is None:
        # Imported once: the module of an experiment may take seconds, and reads its data.
        settings = replace(settings, extra={**extra, "experiment": experiment})
    selection = None
    if extra.get("failed") is not None:
        from dokimos._cli.failure_rerun import choose_failed

        selection, settings = choose_failed(experiment, settings)
        if selection is None:
            return None
    reuse = _find_reusable_outputs(target, settings, experiment) if is_loop else None
    settings = replace(settings, extra={**settings.extra, "reuse": reuse})
    run_id = None if extra.get("failed") is None else Path(extra["failed"]).name
    previous = _previous_run(target, settings) if is_watched() and run_id is None else None
    return Loop(
        settings=settings,
        selection=selection,
        run_id=run_id,
        previous=previous,
        repeats=settings.runs or experiment.runs,
    )


def _previous_run(target: str, settings: RunSettings) -> Path | None:
    """Return the newest whole run of a target."""
    from dokimos.experiment._run_folders import runs_root
    from dokimos.experiment._run_manifest import read_manifest

    folders = list_target_runs(target, runs_root(settings.extra.get("run_dir")))
    return next((folder for folder in folders if not read_manifest(folder).get("part")), None)


def names_target(value: str | None) -> bool:
    """Say whether what was given as a RUN is the TARGET, as in `--failed evals.py`."""
    from dokimos._cli.target_experiment import is_suite
    from dokimos._cli.targets import parse_target

    if value in (None, NEWEST):
        return False
    return is_suite(value) or parse_target(value) is not None or Path(value).is_file()


def _check_failed(settings: RunSettings) -> None:
    for name in ("resume", "shard"):
        if settings.extra.get(name) is not None or getattr(settings, name, None) is not None:
            raise click.UsageError(
                f"--failed starts a run of its own, so --{name} cannot be combined with it."
            )
    if settings.extra.get("reuse") is not None and settings.extra.get("no_reuse"):
        raise click.UsageError("Give --reuse or --no-reuse, not both.")


def _find_failed_run(failed: str, target: str | None, settings: RunSettings, of_suites: bool) -> Path:
    from dokimos._cli.target_experiment import is_suite
    from dokimos.errors import ConfigurationError
    from dokimos.experiment._run_folders import find_run, runs_root

    root = runs_root(settings.extra.get("run_dir"))
    if failed != NEWEST:
        return find_run(failed, root)
    newest = next(
        (f for f in list_target_runs(target, root) if not of_suites or is_suite(_read_launch(f)["target"])),
        None,
    )
    if newest is None:
        what = "No run" if target is None else f"No run of {target}"
        what = "No run of a suite" if target is None and of_suites else what
        raise ConfigurationError(
            f"{what} is kept in {root}, so it is not known what failed. Run it whole first, or name the run: "
            "--failed RUN."
        )
    return newest


def list_target_runs(target: str | None, root: Path) -> Iterator[Path]:
    """Yield the runs that the command line started of a target, or of any, the newest first.

    Those in which nothing was run, and those for estimates, are left out.
    """
    from dokimos._cli.targets import absolute_target
    from dokimos.errors import JournalError
    from dokimos.experiment._run_folders import list_run_folders
    from dokimos.experiment._run_journal import JOURNAL_FILE
    from dokimos.experiment._run_manifest import read_manifest

    absolute = None if target is None else absolute_target(target)
    for folder in reversed(list_run_folders(root)):
        try:
            manifest = read_manifest(folder)
            with (folder / JOURNAL_FILE).open("rb") as journal:
                # The first line is enough: a journal may have gigabytes, and this is asked of each run.
                has_items = journal.readline().startswith(b'{"t":"item"')
        except (JournalError, OSError):
            continue
        launch = manifest.get("launch")
        if not launch or not has_items or (manifest.get("part") or {}).get("reason") == "estimate":
            continue
        if absolute is None or launch.get("target") == absolute:
            yield folder


def _read_launch(folder: Path) -> Any:
    from dokimos.experiment._run_manifest import read_manifest

    return read_manifest(folder).get("launch")


def _with_settings_of(launch: Mapping[str, Any] | None, settings: RunSettings) -> RunSettings:
    """Put the settings of a run under those that were given now."""
    if not launch:
        return settings
    inherited = set(settings.__dataclass_fields__) - NOT_INHERITED - {"extra"} - set(settings.to_json())
    return replace(settings, **{k: v for k, v in launch.get("settings", {}).items() if k in inherited})


def _find_reusable_outputs(
    target: str, settings: RunSettings, experiment: Experiment
) -> EarlierOutputs | None:
    """Return the outputs and replies that need not be made again."""
    extra = settings.extra
    if extra.get("no_reuse"):
        return None
    from itertools import islice

    from dokimos.experiment._reuse import MOST_RUNS, EarlierRun
    from dokimos.experiment._run_folders import find_run, runs_root

    root = runs_root(extra.get("run_dir"))
    requested = extra.get("reuse")
    failed = None if extra.get("failed") is None else Path(extra["failed"])
    if requested in (None, NEWEST):
        folders = list(islice(list_target_runs(target, root), MOST_RUNS))
        if failed is not None and failed not in folders:
            folders.append(failed)
    else:
        folders = [find_run(requested, root)]
    earlier = [EarlierRun.of(folder) for folder in folders]
    if (
        requested is None
        and not is_watched()
        and failed is not None
        and _nothing_changed(target, failed, earlier, experiment)
    ):
        echo(
            f"Nothing has changed since {failed.name}, so the application and the judges are asked again "
            "(--reuse takes its outputs).",
            err=True,
        )
        return None
    return _usable(target, earlier, experiment, is_requested=requested is not None)


def _usable(
    target: str, earlier: list[EarlierRun], experiment: Experiment, *, is_requested: bool
) -> EarlierOutputs:
    from dokimos._cli.targets import absolute_target
    from dokimos.datasets._answer_replay import read_recorded_answer
    from dokimos.experiment._reuse import EarlierOutputs
    from dokimos.experiment._task import task_name

    task, now = task_name(experiment.task), absolute_target(target)
    reasons = {run.folder: run.why_not(task, target=now, is_requested=is_requested) for run in earlier}
    for run in earlier:
        if reasons[run.folder] is None:
            run.mark_files_as_read()
    same = [folder for folder, reason in reasons.items() if reason is None]
    note = next((f"{folder.name}: {reason}" for folder, reason in reasons.items() if reason), "")
    replies = {run.folder: reasons[run.folder] is None for run in earlier[:MOST_REPLIES]}
    if getattr(experiment.task, "answers_elsewhere", False) and not is_requested:
        same, note = (
            [],
            "the agent is not code of this process, so nobody here can see whether it has changed",
        )
    if experiment.task is read_recorded_answer:
        same, note = [], ""  # they cost nothing
    return EarlierOutputs(same, replies, note="" if same else note)


def _nothing_changed(target: str, failed: Path, earlier: list[Any], experiment: Experiment) -> bool:
    from dokimos._cli.targets import absolute_target
    from dokimos.experiment._run_identity import RunIdentity
    from dokimos.experiment._run_manifest import read_manifest

    run = next(one for one in earlier if one.folder == failed)
    now = RunIdentity.of(experiment)
    if run.why_not(now.task, target=absolute_target(target)) is not None or run.record.data_changes():
        return False
    return RunIdentity.from_manifest(read_manifest(failed)).has_evaluators_of(now)

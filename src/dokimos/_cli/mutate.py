"""`dokimos mutate`: whether the metrics of a suite notice faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dokimos._cli.echo import echo
from dokimos._cli.exit_codes import EXIT_BELOW, EXIT_BROKEN
from dokimos._cli.kept_replies import close_reply_folder, open_reply_folder, tell_how_to_continue
from dokimos._cli.measured_report import show_report
from dokimos._cli.options import call_options, check_writable, complete_runs, evaluator_option, run_dir_option

if TYPE_CHECKING:
    from dokimos._core.results import ExperimentResult
    from dokimos.experiment._experiment import EvaluatorSource
    from dokimos.experiment._run_options import RunOptions
    from dokimos.mutation._plan import MutationPlan
    from dokimos.mutation._report import MutationReport

KINDS: Final = (
    "wrong_number", "dropped_clause", "swapped_entity", "negated", "wrong_tool", "wrong_argument", "refusal",
    "truncated", "empty",
)  # fmt: skip
"""`MutationKind`, which is not imported for the help of other commands."""
FOLDER: Final = Path(".dokimos") / "mutations"
"""Where replies of judges are kept until all mutants are scored."""


@click.command()
@click.argument("run", metavar="RESULT|TARGET", shell_complete=complete_runs)
@evaluator_option(required=False)
@click.option(
    "--target", metavar="TARGET",
    help="The suite or experiment whose evaluators score.  [default: that of the run]",
)  # fmt: skip
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(KINDS),
    help="Only faults of this kind. Repeatable.  [default: all]",
)  # fmt: skip
@click.option("--judged", is_flag=True, help="Use evaluators that ask a model, too: it costs calls.")
@click.option(
    "--all-metrics", is_flag=True,
    help="Ask models also about faults that other metrics have noticed: for the figures of each metric.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Chooses the faults.")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Only the first N answers.")
@click.option(
    "-j", "--parallelism", type=click.IntRange(min=1), default=8, show_default=True, help="Items at once."
)
@click.option("--dry-run", is_flag=True, help="Say how many mutants and calls there are; score nothing.")
@click.option(
    "--min-score", "min_scores", multiple=True, metavar="SHARE|KIND=SHARE",
    help="Exit with 1 where fewer of the faults are noticed, of all or of a kind. Repeatable.",
)  # fmt: skip
@call_options
@click.option(
    "-o", "--output", "outputs", multiple=True, metavar="FILE", type=click.Path(dir_okay=False),
    help="Write the report as .json. Repeatable.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@run_dir_option
@click.option("-v", "--verbose", is_flag=True, help="Show every fault that nobody noticed.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the score.")
def mutate(
    run: str,
    specs: Sequence[str],
    target: str | None,
    outputs: Sequence[str],
    min_scores: Sequence[str],
    run_dir: str | None,
    parallelism: int,
    dry_run: bool,
    as_json: bool,
    verbose: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Put faults into recorded answers and say how many of them the metrics notice.

    \b
    dokimos mutate agent.yaml
    dokimos mutate latest --min-score 0.8
    dokimos mutate result.json -e f1_score:threshold=0.5

    RESULT is a run id (or its start, or 'latest'), a run folder or a JSON report; it is not changed. TARGET
    is a suite, or an experiment in Python, and means its newest run.
    """
    from dokimos._cli.options import call_keywords, check_volume
    from dokimos.experiment._run_options import RunOptions
    from dokimos.mutation._plan import plan_mutations
    from dokimos.mutation._view import headline

    check_volume(quiet, verbose)
    _check_outputs(outputs)
    levels = [_parse_level(text) for text in min_scores]
    call_options = RunOptions(**call_keywords(options))
    result, evaluators = _load(run, specs, target, run_dir)
    chosen = {name: options[name] for name in ("seed", "judged", "limit", "all_metrics")}
    plan = plan_mutations(result, evaluators, kinds=options["kinds"] or None, **chosen)
    if dry_run or (plan.calls.total and not quiet):
        # Where a report follows, standard output is for it.
        echo(_describe(plan), err=not dry_run)
    if dry_run:
        return 0
    folder = _open_folder(plan)
    report = _measure(plan, call_options, parallelism, folder)
    show_report(report, headline(report), outputs, as_json=as_json, verbose=verbose, quiet=quiet)
    # Only now: where the report cannot be written, the replies are all there is.
    close_reply_folder(folder, is_complete=not _is_incomplete(report))
    return _exit_code(report, levels)


@dataclass(frozen=True, slots=True)
class _Level:
    """A share of the faults that has to be noticed."""

    share: float
    kind: str | None


def _parse_level(text: str) -> _Level:
    from dokimos._core.proportions import parse_proportion

    kind, equals, written = text.rpartition("=")
    share = parse_proportion(written)
    if share is None:
        raise click.UsageError(f"--min-score {text!r} must be a share, 0.8 or 80%, or KIND=SHARE.")
    if equals and kind not in KINDS:
        raise click.UsageError(f"--min-score {text!r}: {kind!r} is not one of {', '.join(KINDS)}.")
    return _Level(share, kind if equals else None)


def _check_outputs(outputs: Sequence[str]) -> None:
    for output in outputs:
        if Path(output).suffix.lower() != ".json":
            raise click.UsageError(f"-o {output}: a mutation report is written as .json.")
        check_writable(Path(output))


def _load(
    run: str, specs: Sequence[str], target: str | None, run_dir: str | None
) -> tuple[ExperimentResult, EvaluatorSource]:
    """Return the result with its answers, and the evaluators that score it."""
    from dokimos._cli.loop import list_target_runs, names_target
    from dokimos._cli.options import load_result_argument
    from dokimos._cli.specs import build_evaluators
    from dokimos.errors import ConfigurationError
    from dokimos.experiment._run_folders import runs_root

    if specs and target is not None:
        raise click.UsageError("Give the evaluators by -e or by --target, not both.")
    if names_target(run) and not _is_report(run):
        root = runs_root(run_dir)
        folder = next(list_target_runs(run, root), None)
        if folder is None:
            raise ConfigurationError(
                f"No run of {run} is kept in {root}, so there are no answers to put faults into. "
                "Run it first."
            )
        run = str(folder)
    result = load_result_argument(run, run_dir)
    if specs:
        return result, build_evaluators(specs)
    return result, _target_evaluators(run, target, run_dir)


def _is_report(run: str) -> bool:
    return Path(run).is_file() and run.lower().endswith(".json")


def _target_evaluators(run: str, target: str | None, run_dir: str | None) -> EvaluatorSource:
    from dokimos._cli.run_settings import RunSettings
    from dokimos._cli.target_experiment import plan_experiment
    from dokimos.errors import ConfigurationError

    launch = _read_launch(run, run_dir)
    chosen = target or launch.get("target")
    if chosen is None:
        raise ConfigurationError(
            f"{run} does not say which evaluators scored it, as a report or a run from Python. Name them: "
            "-e EVALUATOR, or --target with the suite or the experiment."
        )
    stored = launch.get("settings") or {}
    # The evaluators of a data file are among the settings; those of a suite or an experiment are not.
    kept = {name: stored[name] for name in ("specs", "columns") if target is None and stored.get(name)}
    return plan_experiment(chosen, RunSettings(**kept)).evaluators


def _read_launch(run: str, run_dir: str | None) -> Mapping[str, Any]:
    from dokimos.experiment._run_folders import find_run, runs_root
    from dokimos.experiment._run_manifest import read_manifest

    if Path(run).is_file():
        return {}
    launch: Mapping[str, Any] | None = read_manifest(find_run(run, runs_root(run_dir))).get("launch")
    return launch or {}


def _describe(plan: MutationPlan) -> str:
    from dokimos._core.text import pluralize

    answers = pluralize(len(plan.items), "answer")
    made = f"{pluralize(len(plan.mutants), 'mutant')} of {answers}"
    calls = plan.calls
    if not calls.total:
        return f"{made}; no calls of models."
    bound = "at least" if calls.is_least else "at most"
    rest = "" if plan.all_metrics else " and that no other metric notices"
    return (
        f"{made}; {bound} {pluralize(calls.total, 'call')} of judges: {calls.for_answers} for the answers, "
        f"{calls.for_mutants} for the mutants of those that pass{rest}."
    )


def _open_folder(plan: MutationPlan) -> Path | None:
    marks = [plan.name, plan.seed, list(plan.kinds), len(plan.items)]
    return open_reply_folder(FOLDER, marks) if plan.calls.total else None


def _measure(
    plan: MutationPlan, options: RunOptions, parallelism: int, folder: Path | None
) -> MutationReport:
    """Score the plan; replies of judges are kept until all verdicts are there."""
    from dokimos._runtime.concurrency import run_sync
    from dokimos.mutation._scoring import score_plan

    try:
        return run_sync(score_plan(plan, options, parallelism=parallelism, folder=folder))
    except KeyboardInterrupt:
        tell_how_to_continue(folder)
        raise


def _is_incomplete(report: MutationReport) -> bool:
    total, excluded = report.total, report.excluded
    return bool(total.errors or total.not_scored or excluded.not_scored or excluded.errored)


def _exit_code(report: MutationReport, levels: Sequence[_Level]) -> int:
    if not report.total.mutants:
        return EXIT_BROKEN
    codes = [_compare(report, level) for level in levels]
    if EXIT_BELOW in codes:
        return EXIT_BELOW
    # A 0 would say that all is well, also where only a part was judged.
    was_refused = report.excluded.not_scored or report.total.not_scored
    return EXIT_BROKEN if EXIT_BROKEN in codes or was_refused else 0


def _compare(report: MutationReport, level: _Level) -> int:
    """Return the exit code for a level; mutants without a verdict might have been noticed, or not."""
    from dokimos._core.number_format import percent
    from dokimos._core.text import pluralize
    from dokimos.errors import ConfigurationError

    found = report.total if level.kind is None else _kind_of(report, level.kind)
    what = "Of all faults" if level.kind is None else f"Of {level.kind}"
    missing = found.errors + found.not_scored
    if found.rate is None:
        if missing:
            return EXIT_BROKEN
        raise ConfigurationError(
            f"--min-score: {what.lower()} none has a verdict, so there is nothing to compare."
        )
    if (found.noticed + missing) / (found.mutants + missing) < level.share:
        echo(f"{what}, {percent(found.rate)} are noticed; required: {percent(level.share)}.", err=True)
        return EXIT_BELOW
    if found.noticed / (found.mutants + missing) < level.share:
        mutants = pluralize(missing, "mutant")
        echo(
            f"{what}, {percent(found.rate)} are noticed, but {mutants} without a verdict decide about "
            f"{percent(level.share)}.",
            err=True,
        )
        return EXIT_BROKEN
    return 0


def _kind_of(report: MutationReport, kind: str) -> Any:
    from dokimos.errors import ConfigurationError

    try:
        return report.kind(kind)
    except KeyError:
        raise ConfigurationError(f"--min-score {kind}: --kind leaves out faults of this kind.") from None

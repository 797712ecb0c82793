"""`dokimos gate`: a result against its baseline, with an exit code for CI; and the report of verdicts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from dokimos._cli.compare import test_options
from dokimos._cli.echo import echo
from dokimos._cli.exit_codes import EXIT_BELOW, EXIT_INCONCLUSIVE
from dokimos._cli.options import complete_runs, run_dir_option

if TYPE_CHECKING:
    from dokimos.gate._gate_config import GateConfig
    from dokimos.gate._reruns import Rerun
    from dokimos.gate._verdict import GateVerdict
    from dokimos.gate._verdict_markdown import VerdictFile

F = TypeVar("F", bound=Callable[..., Any])

SERVER_OPTIONS: Final = (
    "server", "candidate", "experiment", "branch", "gate_name", "skip_failed_baselines",
    "refuse_changed_evaluators",
)  # fmt: skip
_CHECK: Final = "check"
_SUBCOMMANDS: Final = (_CHECK, "report")


def server_gate_options(command: F) -> F:
    """Options on runs of a server."""
    for option in reversed((
        click.option(
            "--server", is_flag=False, flag_value="", metavar="[URL]",
            help="Ask the gate of a server about one of its runs.  [default: DOKIMOS_SERVER_URL]",
        ),
        click.option("--candidate", metavar="RUN", help="The run of the server, in place of RESULT."),
        click.option("--experiment", metavar="ID", help="Its experiment.  [default: that of the run]"),
        click.option("--branch", metavar="BRANCH", help="Compare with the newest run of this branch."),
        click.option("--name", "gate_name", metavar="NAME", help="What the gate is called in reports."),
        click.option(
            "--skip-failed-baselines", is_flag=True,
            help="Let the server choose no baseline that failed the gate itself.",
        ),
        click.option(
            "--refuse-changed-evaluators", is_flag=True,
            help="Fail where the server has an evaluator that is configured differently in the baseline.",
        ),
    )):  # fmt: skip
        command = option(command)
    return command


class GateGroup(click.Group):
    """A group whose first argument is a result, unless it is a command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # So that `dokimos gate RESULT` stays short; a run of the name `report` needs `check` before it.
        if args and args[0] not in _SUBCOMMANDS:
            args = [_CHECK, *args]
        return super().resolve_command(ctx, args)


@click.group(cls=GateGroup, no_args_is_help=True, context_settings={"ignore_unknown_options": True})
def gate() -> None:
    """Fail where a result is worse than its baseline.

    'dokimos gate RESULT' compares a result ('dokimos gate check --help' has the options);
    'dokimos gate report DIR' shows the verdicts in a folder.
    """


@gate.command(_CHECK)
@click.argument("result", required=False, shell_complete=complete_runs)
@click.option(
    "-b", "--baseline", metavar="FILE|RUN",
    help="A baseline file, or a run to compare with.  [default: tests/baselines/EXPERIMENT.json; with "
    "--server the run that it chooses]",
)  # fmt: skip
@server_gate_options
@click.option("--update-baseline", is_flag=True, help="Write the baseline file from this result, and pass.")
@click.option("--allow-errors", is_flag=True, help="Let a result with errors become the baseline.")
@test_options
@click.option(
    "--severity-margin", type=click.FloatRange(0, 1), default=0.15, show_default=True,
    help="A drop of a single item by more than this is suspicious; --severity says what counts.",
)  # fmt: skip
@click.option(
    "--severity", type=click.Choice(["auto", "any", "confirmed", "calibrated", "off"]), default="auto",
    show_default=True,
    help="Which drops of single items count. auto: any, where a deterministic evaluator did not vary in 3 "
    "repeats; those that stand out, where repeats vary; with one repeat, those that --rerun confirms, else "
    "the verdict is INCONCLUSIVE, which passes without --require-power. any: any, noise or not.",
)  # fmt: skip
@click.option(
    "--confirm", type=click.IntRange(min=0), default=0, metavar="N",
    help="Run suspicious items N times again, and let the majority decide; needs --rerun.  "
    "[default: 3 with --rerun and --severity auto]",
)  # fmt: skip
@click.option("--rerun", metavar="TARGET", help="The experiment to run suspicious items with, as in 'run'.")
@click.option(
    "--noise", type=click.Path(dir_okay=False, exists=True), metavar="FILE",
    help="What 'dokimos noise -o FILE' saw of the unchanged system.  [default: NAME.noise.json beside the "
    "baseline, if there]",
)  # fmt: skip
@click.option(
    "--require-power", type=click.FloatRange(0, 1, min_open=True, max_open=True), metavar="SHARE",
    help="Exit with 4 where a drop of --detect-drop would not have been seen with this chance, or where the "
    "drop of a single item cannot be told from noise.",
)  # fmt: skip
@click.option(
    "--detect-drop", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05,
    show_default=True, help="The drop that must be seen.",
)  # fmt: skip
@click.option(
    "--on-no-baseline", type=click.Choice(["pass", "fail"]), default="pass", show_default=True,
    help="What a missing baseline file means in CI.",
)  # fmt: skip
@click.option(
    "--on-removed-evaluator", type=click.Choice(["fail", "warn"]), default="fail", show_default=True,
    help="What an evaluator means that only the baseline has.",
)  # fmt: skip
@click.option("--fail-on-removed-items", is_flag=True, help="Fail where items of the baseline are missing.")
@click.option(
    "-o", "--output", "outputs", metavar="FILE", multiple=True,
    help="Write the verdict: .html, .json or .md. Repeat it for several files.",
)  # fmt: skip
@run_dir_option
@click.option("-q", "--quiet", is_flag=True, help="Print only the verdict.")
def check(
    result: str | None,
    baseline: str | None,
    rerun: str | None,
    noise: str | None,
    outputs: tuple[str, ...],
    run_dir: str | None,
    quiet: bool,
    **gate_options: Any,
) -> int:
    """Compare RESULT with its baseline.

    RESULT is a run id (or its start, or 'latest'), a run folder or a JSON report; with --server, a run of the
    server or a result that was reported to it. Exit code: 0 passed, 1 failed, 2 wrong usage, 4 inconclusive
    and power is required.
    """
    server = {name: gate_options.pop(name) for name in SERVER_OPTIONS}
    if server["server"] is not None or server["candidate"] is not None:
        return _check_on_server(server, outputs, run_dir, quiet=quiet)
    for name, value in server.items():
        if value:
            option = name.removeprefix("gate_").replace("_", "-")
            raise click.UsageError(f"--{option} is for runs of a server: add --server URL.")
    if result is None:
        raise click.UsageError("Name the result to check: a run id, 'latest', a run folder or a JSON report.")
    return _check_here(
        result, baseline, rerun, noise, outputs, run_dir, quiet=quiet, gate_options=gate_options
    )


def _check_here(
    result: str,
    baseline: str | None,
    rerun: str | None,
    noise: str | None,
    outputs: tuple[str, ...],
    run_dir: str | None,
    *,
    quiet: bool,
    gate_options: dict[str, Any],
) -> int:
    import logging

    from dokimos._cli.options import load_result_argument
    from dokimos._cli.sides import load_side
    from dokimos.gate._gate import RegressionGate
    from dokimos.gate._gate_config import GateConfig

    logging.getLogger("dokimos.gate").addHandler(logging.NullHandler())  # the message says it all
    # Before anything is run: --rerun may take minutes, and cost money.
    _check_outputs(outputs)
    config = GateConfig(**gate_options)
    again = _rerun(rerun, config)
    candidate = load_result_argument(result, run_dir)
    if baseline is not None and _is_run(baseline):
        if config.update_baseline:
            raise click.UsageError(f"--update-baseline writes a file, and {baseline} is a run.")
        verdict = RegressionGate(config=config, rerun=again, noise=noise).check_against(
            candidate, load_side(baseline, run_dir).snapshot
        )
    else:
        baseline_path = None if baseline is None else Path(baseline)
        accept = _accept_command()
        verdict = RegressionGate(
            baseline_path, config=config, accept_command=accept, rerun=again, noise=noise
        ).check(candidate)
    written = [_write(verdict, Path(output)) for output in outputs]
    if quiet:
        echo(verdict.headline)
        warn_of_baseline(verdict.baseline_warnings)
    else:
        verdict.print()
    if written and not quiet:
        echo(f"  reports  {' '.join(quote(str(path)) for path in written)}")
    return _status(verdict)


def warn_of_baseline(warnings: Sequence[str]) -> None:
    """Print what must be known of a verdict even where only the verdict is asked for."""
    for warning in warnings:
        echo(f"Warning: {warning}", err=True)


def _check_on_server(
    server: dict[str, Any],
    outputs: Sequence[str],
    run_dir: str | None,
    *,
    quiet: bool,
) -> int:
    from click.core import ParameterSource

    from dokimos._cli.server_gate import (
        ALWAYS,
        FIELD_OF,
        NOT_ON_SERVER,
        SERVER_FLAGS,
        ServerGate,
        check_server_outputs,
    )

    ctx = click.get_current_context()
    sources = {name: ctx.get_parameter_source(name) for name in NOT_ON_SERVER}
    refused = next(
        (name for name, source in sources.items() if source not in (None, ParameterSource.DEFAULT)), None
    )
    if refused is not None:
        raise click.UsageError(
            f"--{refused.replace('_', '-')} is for results on this machine, not for --server."
        )
    check_server_outputs(outputs)
    result = ctx.params["result"]
    if result is not None and server["candidate"] is not None:
        raise click.UsageError("Name the run once: as RESULT, or with --candidate.")
    gate = ServerGate(
        server=server["server"] or os.environ.get("DOKIMOS_SERVER_URL"),
        result=result or server["candidate"],
        run_dir=run_dir,
        experiment=server["experiment"],
        baseline=ctx.params["baseline"],
        branch=server["branch"],
        name=server["gate_name"],
        options={
            **ALWAYS,
            **{field: ctx.params[name] for name, field in FIELD_OF.items()},
            **{field: True for name, field in SERVER_FLAGS.items() if server[name]},
        },
    )
    return gate.run(outputs, quiet=quiet)


def _check_outputs(outputs: Sequence[str]) -> None:
    from dokimos._cli.options import check_writable

    for output in outputs:
        if Path(output).suffix.lower() not in _WRITERS:
            raise click.UsageError(f"-o {output}: a verdict is written as .html, .json or .md.")
        check_writable(Path(output))


def _rerun(target: str | None, config: GateConfig) -> Rerun | None:
    from dokimos._cli.targets import load_experiment

    if config.confirm and target is None:
        raise click.UsageError("--confirm runs items again: name the experiment with --rerun TARGET.")
    return None if target is None else load_experiment(target)


def _is_run(baseline: str) -> bool:
    """Say whether this names a run or a report; a file that is not there yet, or damaged, is a baseline."""
    from dokimos._cli.sides import is_baseline_file

    path = Path(baseline)
    if path.is_file():
        # A damaged file is taken for a baseline, whose reader says what is wrong with it.
        return not is_baseline_file(path, damaged=True)
    return path.is_dir() or path.suffix != ".json"


def _accept_command() -> str:
    from shlex import join

    arguments = [argument for argument in sys.argv[1:] if argument != "--update-baseline"]
    return join(["dokimos", *arguments, "--update-baseline"])


def _json_of(verdict: GateVerdict) -> str:
    import json

    return json.dumps(verdict.tree(), ensure_ascii=False, allow_nan=False) + "\n"


_WRITERS: Final[dict[str, Callable[[GateVerdict], str]]] = {
    ".html": lambda verdict: verdict.to_html(),
    ".json": _json_of,
    ".md": lambda verdict: verdict.to_markdown(),
}


def _write(verdict: GateVerdict, path: Path) -> Path:
    from dokimos.exporters._base import write_report

    return write_report(path, _WRITERS[path.suffix.lower()](verdict))


def _status(verdict: GateVerdict) -> int:
    from dokimos.gate._verdict import GateStatus

    if verdict.passed:
        return 0
    return EXIT_INCONCLUSIVE if verdict.status is GateStatus.INCONCLUSIVE else EXIT_BELOW


@gate.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False))
@click.option("--comment", is_flag=True, help="On GitHub: keep one comment per gate on the pull request.")
@click.option("--no-fail", is_flag=True, help="Exit with 0 whatever the verdicts are.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(dir_okay=False), help="Write the Markdown.")
def report(folder: str, comment: bool, no_fail: bool, output: str | None) -> int:
    """Show all verdicts in DIR as Markdown.

    They are written to the job summary too, where the CI has one. On GitHub, items that got worse are shown
    at their lines of the data.

    Exit code: 0 passed, 1 a gate failed, 2 there is no verdict, 4 a gate was inconclusive.
    """
    from dokimos.gate import _github as github
    from dokimos.gate._verdict_markdown import read_verdicts, render_markdown

    verdicts = read_verdicts(Path(folder))
    text = "\n".join(render_markdown(verdict.tree, verdict.name) for verdict in verdicts)
    if output is not None:
        from dokimos.exporters._base import write_report

        write_report(Path(output), text)
    echo(text, nl=False)
    github.write_summary(text, os.environ)
    github.write_outputs(verdicts, os.environ)
    for annotation in github.annotate(verdicts, os.environ):
        echo(annotation, err=True)
    if comment:
        _comment(verdicts)
    return 0 if no_fail else _overall_status(verdicts)


def _comment(verdicts: Sequence[VerdictFile]) -> None:
    from dokimos.gate import _github as github

    try:
        addresses = github.comment(verdicts, github.PullRequest.of(os.environ))
    except github.CommentSkipped as reason:
        echo(f"No comment was written: {reason}.", err=True)
    else:
        echo("\n".join(f"Comment: {address}" for address in addresses), err=True)


def _overall_status(verdicts: Sequence[VerdictFile]) -> int:
    failed = [verdict for verdict in verdicts if not verdict.passed]
    if not failed:
        return 0
    return EXIT_INCONCLUSIVE if all(v.status == "INCONCLUSIVE" for v in failed) else EXIT_BELOW

"""The `dokimos` command: finds the command asked for, imports only that, and turns errors into messages."""

from __future__ import annotations

import atexit
import importlib
import io
import os
import signal
import sys
import traceback
from functools import partial
from typing import Any, Final, NoReturn

import click

from dokimos._cli.exit_codes import EXIT_BELOW, EXIT_INTERRUPTED, EXIT_SIGNAL, EXIT_USAGE, exit_code_of_error
from dokimos._version import __version__
from dokimos.errors import DokimosError, RunInterrupted

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "run": ("dokimos._cli.run:run", "Run an experiment, or score recorded outputs."),
    "test": ("dokimos._cli.test:test", "Run a suite: agent, metrics and test cases in one YAML file."),
    "resume": ("dokimos._cli.resume:resume", "Continue a run that was cut short."),
    "view": ("dokimos._cli.view:view", "Show the runs of this machine in the browser, live."),
    "list": ("dokimos._cli.list_runs:list_runs", "List the runs kept here; delete old ones."),
    "show": ("dokimos._cli.show:show", "Show a result, or one of its items."),
    "export": ("dokimos._cli.export:export_result", "Write a result as a report."),
    "rescore": (
        "dokimos._cli.rescore:rescore",
        "Score the outputs of a result again, without calling the task.",
    ),
    "compare": ("dokimos._cli.compare:compare", "Say what changed between two results, item by item."),
    "gate": ("dokimos._cli.gate:gate", "Fail where a result is worse than its baseline."),
    "plan": ("dokimos._cli.plan:plan", "Say how many items and repeats it takes to see a drop."),
    "noise": ("dokimos._cli.noise:noise", "Say how often a gate would fire although nothing changed."),
    "mutate": (
        "dokimos._cli.mutate:mutate",
        "Say how many faults in recorded answers the metrics notice.",
    ),
    "perturb": (
        "dokimos._cli.perturb:perturb",
        "Add changed versions of examples, whose answers should be the same.",
    ),
    "invariance": (
        "dokimos._cli.perturb:invariance",
        "Say how often answers stay the same although the input is perturbed.",
    ),
    "generate": (
        "dokimos._cli.generate:generate",
        "Let a model write cases from documents, for a person to review.",
    ),
    "cache": ("dokimos._cli.cache:cache", "Look at the kept replies of judges, or delete them."),
    "merge": ("dokimos._cli.merge:merge", "Join the shards of a run."),
    "judge": ("dokimos._cli.judge:judge", "Test how easily a judge is misled: attack it."),
    "serve": ("dokimos._cli.serve:serve", "Start the server: results of a team, over HTTP."),
    "mcp": ("dokimos._cli.mcp:mcp", "Offer evaluations as tools to an agent (MCP)."),
    "db": ("dokimos._cli.db:db", "Upgrade, check, back up and move the database of a server."),
    "size": (
        "dokimos._cli.size:size",
        "Say which machines, disk, memory and money a load takes.",
    ),
    "push": ("dokimos._cli.push:push", "Send a finished result to a server."),
    "spool": ("dokimos._cli.spool:spool", "Send what could not be sent to a server."),
    "datasets": ("dokimos._cli.datasets:datasets", "Push, pull, list and compare data sets of a server."),
    "evaluators": ("dokimos._cli.evaluators:evaluators", "List the evaluators, or explain one."),
    "validate": ("dokimos._cli.validate:validate", "Read a data set and say what is in it."),
    "doctor": ("dokimos._cli.doctor.command:doctor", "Say what this machine has and lacks, and what to do."),
    "init": ("dokimos._cli.init:init", "Write a small working project to start from."),
    "import": (
        "dokimos._cli.import_:import_",
        "Turn configurations and exports of other tools into suites and data sets.",
    ),
    "completion": ("dokimos._cli.completion:completion", "Print the completion script for a shell."),
}


class LazyGroup(click.Group):
    """A group that knows what its commands are called without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry[0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise click.UsageError(f"There is no command '{args[0]}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, purpose) for name, (_, purpose) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 passed, 1 below what was asked for or errored, 2 wrong usage or configuration, "
    "3 the run broke or judged too little, 4 inconclusive (gate), 130 interrupted (143 by SIGTERM, "
    "129 by SIGHUP).",
)
@click.version_option(__version__, prog_name="dokimos")
@click.option(
    "--debug",
    is_flag=True,
    help="Show whole tracebacks, also of what the application raised.",
)
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Evaluate applications built on language models."""
    ctx.obj = {"debug": debug}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what a model wrote must not break an output in cp1252
    from dokimos._cli.collector import skip_last_collections, skip_unnoticed_collections
    from dokimos._cli.warning_output import warnings_in_one_line
    from dokimos._runtime.interrupts import end_on_signals, signal_received

    atexit.register(skip_unnoticed_collections)  # before anything of the user's: the first is called last
    end_on_signals(_let_go_of_dead_terminals)
    try:
        with warnings_in_one_line():
            exit_code = run_command(sys.argv[1:] if arguments is None else arguments)
    except Exception:  # only with --debug
        _tell(traceback.format_exc().rstrip())
        exit_code = EXIT_BELOW
    if exit_code == EXIT_INTERRUPTED:
        received = signal_received()
        if received is not None:
            exit_code = EXIT_SIGNAL + received
            # 128 and the number of the signal, as shells and process managers expect.
            signal.signal(received, partial(_leave, exit_code))
        signal.signal(signal.SIGINT, partial(_leave, exit_code))
    skip_last_collections()
    sys.exit(exit_code)


def _leave(exit_code: int, signum: int, frame: object) -> NoReturn:
    """End at once on one more Ctrl-C: all has been said, and threads of the application may hang."""
    os._exit(exit_code)


def _let_go_of_dead_terminals(signum: int) -> None:
    """Write to nowhere what would go to a terminal that was closed, so that reports are still written."""
    for descriptor in (1, 2):
        try:
            os.write(descriptor, b"")
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            # The descriptor itself, since the application and its libraries have copies of sys.stdout.
            os.dup2(nowhere, descriptor)
            os.close(nowhere)


def run_command(arguments: list[str]) -> int:
    """Run a command and return its exit code; every error becomes one readable message."""
    debug = "--debug" in arguments
    try:
        # Without standalone mode, in which click itself prints errors and exits with codes of its own.
        exit_code: Any = cli.main(_debug_first(arguments), prog_name="dokimos", standalone_mode=False)
        return exit_code if isinstance(exit_code, int) else 0
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        from dokimos._cli.echo import show_usage_error

        show_usage_error(error)
        return EXIT_USAGE
    except (click.Abort, KeyboardInterrupt) as error:
        return _report_interrupt(error)
    except SystemExit:
        return 0  # click and rich leave this way when nobody reads the output
    except Exception as error:
        if debug:
            raise
        _print_error(error)
        return exit_code_of_error(error)


def _debug_first(arguments: list[str]) -> list[str]:
    """Let `--debug` stand anywhere on the line."""
    rest = [argument for argument in arguments if argument != "--debug"]
    return ["--debug", *rest] if len(rest) < len(arguments) else rest


def _print_error(error: Exception) -> None:
    if isinstance(error, DokimosError):
        _tell(f"Error: {error}")
    else:
        _tell(f"Error: {type(error).__name__}: {error}\n(--debug shows where)")


def _report_interrupt(error: BaseException) -> int:
    from dokimos._core.error_chain import error_chain

    # click wraps Ctrl-C, and a second one hides the first
    interrupt = next((one for one in error_chain(error) if isinstance(one, RunInterrupted)), None)
    _tell("Interrupted." if interrupt is None else str(interrupt))
    return EXIT_INTERRUPTED


def _tell(text: str) -> None:
    from dokimos._cli.echo import echo

    echo(text, err=True)

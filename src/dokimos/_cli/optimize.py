"""`dokimos test optimize`: better parameters and instructions of a suite."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from dokimos._cli.echo import echo
from dokimos._cli.exit_codes import EXIT_BROKEN
from dokimos._cli.options import check_volume, run_dir_option
from dokimos._core.text import pluralize
from dokimos.errors import DokimosError

DEFAULT_FILE: Final = "agent.yaml"
_PHASES: Final = ("numeric", "textual")


@click.command()
@click.argument("suite", default=DEFAULT_FILE, type=click.Path(dir_okay=False))
@click.option("--max-cycles", type=click.IntRange(min=1), help="Cycles of a numeric and a textual phase.")
@click.option("--numeric-max-trials", type=click.IntRange(min=1), help="Trials of a numeric phase.")
@click.option("--numeric-patience", type=click.IntRange(min=1), help="Trials no better that end the phase.")
@click.option("--textual-max-trials", type=click.IntRange(min=1), help="Trials of a textual phase.")
@click.option("--textual-patience", type=click.IntRange(min=1), help="Trials no better that end the phase.")
@click.option("--seed", type=int, help="For the split of the cases and the proposals.")
@click.option(
    "--budget-usd", type=click.FloatRange(min=0, min_open=True), metavar="USD", help="For all trials."
)
@click.option("--max-calls", type=click.IntRange(min=1), metavar="N", help="For all trials.")
@click.option(
    "-o", "--output-dir", default="results/optimizer", show_default=True, metavar="DIR",
    type=click.Path(file_okay=False), help="The folder in which the search creates its own.",
)  # fmt: skip
@click.option("--resume", metavar="SEARCH", help="Continue this search ('latest' for the last one).")
@run_dir_option
@click.option(
    "--progress",
    type=click.Choice(["plain", "json"]),
    default="plain",
    help="The format of progress messages.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show what each trial tries.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the summary.")
def optimize(
    suite: str, output_dir: str, progress: str, verbose: bool, quiet: bool, **search_options: Any
) -> int:
    """Look for better parameters and instructions.

    What may change is in evaluations.optimizer of the suite. A change is accepted where cases that took no
    part in the search agree. Writes best.yaml, trials.jsonl and report.md.

    \b
    dokimos test optimize agent.yaml
    dokimos test optimize agent.yaml --numeric-max-trials 20 --budget-usd 5
    """
    from dokimos.optimizer._optimization import optimize_suite
    from dokimos.suites._environment import export_dotenv

    check_volume(quiet, verbose)
    export_dotenv(Path(suite).resolve().parent)
    tell, begun = _listener(progress, quiet=quiet, verbose=verbose), False

    def listener(event: Mapping[str, Any]) -> None:
        nonlocal begun
        # From the first event on there is something to continue, and an error is one of the search.
        begun = True
        tell(event)

    try:
        optimized = optimize_suite(
            suite,
            settings=_settings(search_options),
            output_dir=output_dir,
            resume=search_options["resume"],
            run_dir=search_options["run_dir"],
            listener=listener,
        )
    except KeyboardInterrupt:
        if begun:
            echo(_how_to_go_on(suite), err=True)
        raise
    except DokimosError as error:
        if not begun:
            raise
        echo(f"Error: {error} {_how_to_go_on(suite)}", err=True)
        return EXIT_BROKEN
    if progress == "plain" and quiet:
        _say_outcome(optimized.state.has_improved, str(optimized.best_file))
    return 0


def _how_to_go_on(suite: str) -> str:
    return f"To continue: dokimos test optimize {suite} --resume latest"


def _settings(search_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as the optimizer block has them."""
    settings = {
        name: search_options[name] for name in ("max_cycles", "seed") if search_options[name] is not None
    }
    for phase in _PHASES:
        limits = {name: search_options[f"{phase}_{name}"] for name in ("max_trials", "patience")}
        chosen = {name: limit for name, limit in limits.items() if limit is not None}
        if chosen:
            settings[f"{phase}_phase"] = chosen
    budget = {"max_cost_usd": search_options["budget_usd"], "max_calls": search_options["max_calls"]}
    chosen = {name: limit for name, limit in budget.items() if limit is not None}
    if chosen:
        settings["budget"] = chosen
    return settings


def _listener(progress: str, *, quiet: bool, verbose: bool) -> Callable[[Mapping[str, Any]], None]:
    if progress == "json":
        return lambda event: echo(json.dumps(event, ensure_ascii=False))
    if quiet:
        return lambda event: None
    return lambda event: _say(event, verbose=verbose)


def _say(event: Mapping[str, Any], *, verbose: bool) -> None:
    """Tell an event in words."""
    match event["event"]:
        case "run_started":
            cases = f"{event['train_cases']} training and {event['holdout_cases']} held-out cases"
            axes = pluralize(len(event["axes"]), "axis", "axes")
            echo(f"Optimizing {event['suite']}: {axes}, {cases}, in {event['folder']}")
            for warning in event["warnings"]:
                echo(f"! {warning}", err=True)
        case "baseline":
            echo(f"  as it is: loss {event['loss']:.4f}")
        case "phase_started":
            echo(f"  cycle {event['cycle']}, {event['phase']} phase")
        case "trial":
            echo(f"    {_trial_line(event, verbose=verbose)}")
        case "phase_completed":
            echo(f"    {_phase_line(event)}")
        case "run_completed":
            echo(f"  ended: {event['reason']} (spent: {event['spent']})")
            _say_outcome(event["improved"], event["best"])
            echo(f"Report: {event['report']}")


def _trial_line(event: Mapping[str, Any], *, verbose: bool) -> str:
    line = f"trial {event['trial_id']}: "
    if event["error"] is not None:
        return f"{line}no result: {event['error']}"
    line += f"loss {event['loss']:.4f}"
    if event["infeasible"] is not None:
        line += f", but {event['infeasible']}"
    if verbose:
        tried = (
            event["edit_summary"]
            if event["phase"] == "textual"
            else json.dumps(event["params"], ensure_ascii=False)
        )
        line += f"  {tried}"
    return line


def _phase_line(event: Mapping[str, Any]) -> str:
    if event["challenger"] is None:
        return f"nothing better on the training cases ({event['reason']})"
    verdict = "accepted" if event["accepted"] else "not accepted"
    return f"trial {event['challenger']} {verdict}: {event['holdout']['reason']}"


def _say_outcome(improved: bool, best: str) -> None:
    echo(f"Improved: {best}" if improved else "No improvement: the suite stays as it is.")

"""`dokimos gate --server`: a run of a server, compared there with its baseline."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import click

from dokimos._cli.echo import echo
from dokimos._cli.exit_codes import EXIT_BELOW, EXIT_INCONCLUSIVE
from dokimos._cli.gate import warn_of_baseline
from dokimos._cli.server_options import using_server

if TYPE_CHECKING:
    from dokimos._core.results import ExperimentResult

FIELD_OF: Final = {
    "alpha": "alpha",
    "correction": "correction",
    "pairing": "pairing",
    "severity_margin": "severityMargin",
    "severity": "severity",
    "require_power": "requirePower",
    "detect_drop": "detectDrop",
    "on_no_baseline": "onNoBaseline",
    "on_removed_evaluator": "onRemovedEvaluator",
    "fail_on_removed_items": "failOnRemovedItems",
}
"""Options of the command, and the fields of the request that say the same.

All of them are sent, also where they have their defaults: those of a server's gate decide by fewer guards,
and `dokimos gate` means the same with and without --server.
"""
SERVER_FLAGS: Final = {
    "skip_failed_baselines": "skipFailedBaselines",
    "refuse_changed_evaluators": "refuseChangedEvaluators",
}
"""Options that only a server's gate has, and the fields of its request."""
ALWAYS: Final = {"failOnErrors": True}
"""What a gate on this machine does and has no option for."""
NOT_ON_SERVER: Final = ("rerun", "noise", "confirm", "update_baseline", "allow_errors")
_ID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_MAX_LISTED_EVALUATORS: Final = 10
_MAX_LISTED_ITEMS: Final = 3
_MAX_INPUT_LENGTH: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerGate:
    """What is to be compared on which server."""

    server: str | None
    result: str | None
    """A run of the server, or a result that was reported to it."""
    run_dir: str | None
    experiment: str | None = None
    baseline: str | None = None
    """Likewise."""
    branch: str | None = None
    name: str | None = None
    options: Mapping[str, Any]

    def run(self, outputs: Sequence[str], *, quiet: bool) -> int:
        """Ask the server, print the verdict, write it, and return the exit code."""
        from dokimos.client._gate import ServerGateRequest, check_on_server
        from dokimos.gate._gate_environment import VERDICTS, file_stem

        if self.result is None:
            raise click.UsageError("Name the run of the server, or a result that was reported to it.")
        with using_server(self.server) as url:
            request = ServerGateRequest(
                candidate_run_id=self._find_run(self.result, "candidate"),
                experiment_id=self.experiment,
                baseline_run_id=self.baseline and self._find_run(self.baseline, "baseline"),
                baseline_branch=self.branch,
                options=self.options,
                name=self.name,
            )
            verdict = _name_options(check_on_server(request, url))
        for line in _describe(verdict, quiet=quiet):
            echo(line)
        if quiet:
            warn_of_baseline(verdict.get("baselineWarnings") or ())
        # Where the gates of this machine leave theirs, so that `dokimos gate report` shows both.
        kept = [*outputs, str(VERDICTS / f"{file_stem(verdict['name'])}.json")]
        written = [write_verdict(verdict, Path(output)) for output in kept]
        if not quiet:
            echo(f"  reports  {' '.join(map(str, written))}")
        if verdict["passed"]:
            return 0
        return EXIT_INCONCLUSIVE if verdict["status"] == "INCONCLUSIVE" else EXIT_BELOW

    def _find_run(self, argument: str, role: str) -> str:
        """Return the id on the server of a run that is named by it, or as a result on this machine."""
        if _ID.fullmatch(argument):
            return argument
        from dokimos._cli.options import load_result_argument
        from dokimos._cli.sides import is_baseline_file

        path = Path(argument)
        if path.is_file() and is_baseline_file(path):
            raise click.UsageError(
                f"{argument} is a baseline file, and a server compares runs. Compare with it here, without "
                f"--server: dokimos gate RESULT -b {quote(argument)}"
            )
        result: ExperimentResult = load_result_argument(argument, self.run_dir)
        if not result.server_run_ids:
            raise click.UsageError(
                f"The {role} {argument} was not reported to a server; dokimos push {quote(argument)} sends "
                "it, and prints the id of its run there, which can be named in its place."
            )
        return result.server_run_ids[-1]


def check_server_outputs(outputs: Sequence[str]) -> None:
    """Refuse a report that could not be written before the server is asked."""
    from dokimos._cli.options import check_writable

    for output in outputs:
        if Path(output).suffix.lower() not in (".json", ".md"):
            raise click.UsageError(f"-o {output}: the verdict of a server is written as .json or .md.")
        check_writable(Path(output))


def write_verdict(verdict: Mapping[str, Any], path: Path) -> Path:
    """Write a verdict as Markdown or JSON, as the extension says."""
    from dokimos.exporters._base import write_report
    from dokimos.gate._verdict_markdown import render_markdown

    if path.suffix.lower() == ".md":
        return write_report(path, render_markdown(verdict))
    return write_report(path, json.dumps(verdict, ensure_ascii=False, allow_nan=False) + "\n")


def _describe(verdict: Mapping[str, Any], *, quiet: bool) -> Iterator[str]:
    """Return the verdict as lines for a terminal, in the words of a gate on this machine."""
    from dokimos._core.number_format import format_score

    yield _headline(verdict)
    if quiet:
        return
    warnings = [str(warning) for warning in verdict.get("warnings") or ()]
    yield from (f"  {line}" for line in _explain(verdict))
    if verdict.get("evidence"):
        yield f"  {verdict['evidence']}"
    yield from (f"  Guard 2 for {rule}" for rule in verdict.get("itemGuardsInWords") or ())
    about_baseline = verdict.get("baselineReason")
    if about_baseline and about_baseline not in warnings:
        yield f"  Baseline: {about_baseline}"
    for entry in (verdict.get("regressedEvaluators") or ())[:_MAX_LISTED_EVALUATORS]:
        move = f"{format_score(entry.get('baselineMean'))} -> {format_score(entry.get('candidateMean'))}"
        yield f"  {entry.get('evaluator')}: {move}"
    if verdict.get("regressedCount"):
        yield f"  {_name_worse_items(verdict)}"
    yield from (f"  Warning: {warning}" for warning in warnings)
    yield f"  {verdict['link']}"


def _name_options(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Return a verdict whose advice names the options of this command, not the fields of the API."""

    def rename(text: object) -> str:
        words = str(text)
        for name, field in SERVER_FLAGS.items():
            words = words.replace(field, f"--{name.replace('_', '-')}")
        return words

    changed: dict[str, Any] = {
        key: [rename(text) for text in verdict[key]]
        for key in ("warnings", "baselineWarnings")
        if verdict.get(key)
    }
    if verdict.get("baselineReason"):
        changed["baselineReason"] = rename(verdict["baselineReason"])
    return {**verdict, **changed}


def _name_worse_items(verdict: Mapping[str, Any]) -> str:
    """Say how many items got worse, and what the first of them are: 'item-3' alone tells nobody anything."""
    from dokimos._core.text import shorten

    named = [
        f"{case['index']} ({shorten(' '.join(str(case['input']).split()), _MAX_INPUT_LENGTH)!r})"
        for case in (verdict.get("cases") or ())[:_MAX_LISTED_ITEMS]
        if case.get("input") is not None
    ]
    count = int(verdict["regressedCount"])
    worse = f"{count:,} {'item' if count == 1 else 'items'} got worse"
    if not named:
        return f"{worse}."
    return f"{worse}{':' if len(named) == count else ', such as'} {', '.join(named)}."


def _headline(verdict: Mapping[str, Any]) -> str:
    from dokimos._core.number_format import percent
    from dokimos.comparison._wording import format_points
    from dokimos.gate._verdict import GateStatus, status_in_words

    state = status_in_words(GateStatus(verdict["status"]), passed=verdict["passed"])
    paired = [verdict.get(f"paired{name}") for name in ("BaselinePassRate", "CandidatePassRate", "Delta")]
    match paired:
        case [int() | float() as before, int() | float() as now, int() | float() as delta]:
            rates = f"{percent(before)} -> {percent(now)} ({format_points(delta)})"
            return f"Eval gate {state}: pass rate {rates}."
    if "pairedBaselinePassRate" in verdict:  # the items have no verdicts, so there are no pass rates
        return f"Eval gate {state}: {verdict['name']}."
    # Other servers have the documented fields only.
    whole = [verdict.get(name) for name in ("baselinePassRate", "candidatePassRate")]
    known = [percent(rate) for rate in whole if rate is not None]
    rates = f", pass rate {' -> '.join(known)}" if len(known) == len(whole) else ""
    return f"Eval gate {state}: {verdict['name']}{rates}."


def _explain(verdict: Mapping[str, Any]) -> Iterator[str]:
    """Yield which guards speak, as far as the server says."""
    from dokimos.gate._decision import Guard
    from dokimos.gate._verdict import MAX_REASONS, guard_sentence

    guards = verdict.get("guards")
    if not guards:
        yield from map(str, verdict.get("reasons") or ())
        return
    speaking = [one for one in guards if one.get("fails") or one.get("inconclusive")]
    for one in speaking[:MAX_REASONS]:
        reason, is_inconclusive = str(one.get("reason")), bool(one.get("inconclusive"))
        if one.get("guard") in set(Guard):
            yield guard_sentence(Guard(one["guard"]), reason, is_inconclusive=is_inconclusive)
        else:
            yield reason

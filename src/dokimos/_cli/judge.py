"""`dokimos judge`: what a judge is worth."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dokimos._cli.echo import echo
from dokimos._cli.exit_codes import EXIT_INTERRUPTED
from dokimos._cli.options import check_writable, complete_evaluators

if TYPE_CHECKING:
    from dokimos.evaluators._base import Evaluator
    from dokimos.judges._attack.report import AttackReport
    from dokimos.judges._attack.runner import Progress
    from dokimos.judges._protocol import JudgeLike

PLAIN_SECONDS: Final = 10.0
"""How often a plain line is written where there is no terminal."""
FORMATS: Final = (".json", ".md")
ATTACKS: Final = Path(".dokimos") / "attacks"
"""Where the replies of attacks are that have not come to their end."""
CRITERIA: Final = "The actual output answers the input correctly. The expected output shows a correct answer."


@click.group()
def judge() -> None:
    """Test how easily a judge is misled."""


@judge.command()
@click.argument("model", metavar="JUDGE")
@click.option(
    "-e", "--evaluator", "spec", metavar="EVALUATOR", shell_complete=complete_evaluators,
    help="The judged evaluator to attack, as in 'dokimos run -e'.  [default: llm_judge on correctness]",
)  # fmt: skip
@click.option(
    "-o", "--output", "outputs", multiple=True, metavar="FILE", type=click.Path(dir_okay=False),
    help="Write the report: .json or .md. Repeatable.",
)  # fmt: skip
@click.option(
    "-j", "--parallelism", type=click.IntRange(min=1), default=8, show_default=True, help="Verdicts at once."
)
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), help="Only so many attacks, spread over the categories."
)
@click.option(
    "--defence/--no-defence", "defence", default=None,
    help="Measure only with the defences, or only without them.  [default: both]",
)  # fmt: skip
@click.option(
    "--evaluator-timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
    help="Abandon a verdict after this long; it is missing then.",
)  # fmt: skip
def attack(
    model: str,
    spec: str | None,
    outputs: Sequence[str],
    parallelism: int,
    limit: int | None,
    defence: bool | None,
    evaluator_timeout: float | None,
) -> int:
    """Try to talk a judge into passing wrong answers.

    The report says how often that works.

    JUDGE is a model such as openai:gpt-5-mini or http://localhost:8080/v1#name, or a function of the prompt
    as file.py:function. The wrong answers are judged without an attack first; only those that fail are
    attacked. The judge's replies are kept in .dokimos/attacks until all verdicts are there: after Ctrl-C or
    a crash, the same command goes on.
    """
    from dokimos._runtime.concurrency import run_sync
    from dokimos.judges._attack.corpus import corpus, spread
    from dokimos.judges._attack.runner import Attacking
    from dokimos.judges._run_scope import evaluator_timeout as time_limit

    _check_outputs(outputs)
    calls = _calls_of(model, spec)
    with _progress() as progress_bar:
        attacking = Attacking(
            _evaluator(spec, _judge_named(model)),
            attacks=corpus() if limit is None else spread(corpus(), limit),
            defences=(True, False) if defence is None else (defence,),
            parallelism=parallelism,
            progress=progress_bar,
            calls=calls,
        )
        try:
            with nullcontext() if evaluator_timeout is None else time_limit(evaluator_timeout):
                run_sync(attacking.run())
        except KeyboardInterrupt:
            how = "" if calls is None else " The same command goes on."
            echo(f"Interrupted.{how}", err=True)
    report = attacking.report()
    _present(report, outputs)
    if not report.complete:
        return EXIT_INTERRUPTED
    if calls is not None:
        _end(report, calls)
    return 0


def _end(report: AttackReport, calls: Path) -> None:
    """Let go of the replies, unless some verdicts are missing."""
    if report.errors:
        what = "1 verdict is" if report.errors == 1 else f"{report.errors} verdicts are"
        echo(f"{what} missing; the same command asks only for what is missing or was denied.", err=True)
    else:
        calls.unlink(missing_ok=True)


def _present(report: AttackReport, outputs: Sequence[str]) -> None:
    if report.made:
        echo(report.to_markdown(), nl=False)
        for output in outputs:
            _write(report, Path(output))


def _calls_of(model: str, spec: str | None) -> Path | None:
    """Return the file that keeps the replies of this attack, None where none can be written."""
    from dokimos.gate._gate_environment import keep_out_of_git

    # One file for each judge and evaluator: another attack must not continue with the replies of this one.
    attacked = json.dumps([model, spec]).encode()
    path = ATTACKS / f"{hashlib.sha256(attacked).hexdigest()[:12]}.calls.jsonl"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        keep_out_of_git(path.parent)
    except OSError as error:
        echo(f"Replies are not kept: cannot write {path.parent} ({error.strerror or error}).", err=True)
        return None
    if path.exists():
        echo(f"Continuing with the replies in {path}; delete it to ask for all of them again.", err=True)
    return path


def _judge_named(model: str) -> JudgeLike:
    from dokimos._cli.targets import load_attribute

    return load_attribute(model) if ".py:" in model else model


def _evaluator(spec: str | None, judge: JudgeLike) -> Evaluator:
    from dokimos._cli.specs import build_evaluator
    from dokimos.evaluators.registry import build

    if spec is None:
        return build("llm_judge", {"judge": judge, "criteria": CRITERIA}, where="JUDGE")
    return build_evaluator(spec, {"judge": judge})


def _check_outputs(outputs: Sequence[str]) -> None:
    for output in outputs:
        if Path(output).suffix not in FORMATS:
            raise click.BadParameter(f"{output}: a report on attacks is {' or '.join(FORMATS)}.")
        check_writable(Path(output))


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Show a bar on a terminal's error output, plain lines now and then elsewhere."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    with click.progressbar(length=1, label="Judging", file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield show


class _Lines:
    """Says now and then how far it is, and how long it will take at the pace of late."""

    def __init__(self) -> None:
        self._said = (time.monotonic(), 0)

    def __call__(self, done: int, total: int) -> None:
        from dokimos._core.number_format import duration

        now, (then, before) = time.monotonic(), self._said
        elapsed = now - then
        if elapsed < PLAIN_SECONDS and done < total:
            return
        # The pace since the last line, not since the start: replies from an earlier attempt come at once.
        self._said = (now, done)
        left = (total - done) * elapsed / (done - before) if done > before else 0.0
        ending = f", about {duration(left * 1000)} left" if left else ""
        echo(f"{done} of {total} verdicts{ending}", err=True)


def _write(report: AttackReport, path: Path) -> None:
    from dokimos.errors import ConfigurationError

    text = (
        json.dumps(report.to_dict(), indent=2, ensure_ascii=False) + "\n"
        if path.suffix == ".json"
        else report.to_markdown()
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigurationError(f"Cannot write {path}: {error.strerror or error}.") from error

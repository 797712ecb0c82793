"""`dokimos perturb` and `dokimos invariance`: whether answers stay the same when inputs change a little."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dokimos._cli.echo import echo
from dokimos._cli.exit_codes import EXIT_BELOW, EXIT_BROKEN
from dokimos._cli.kept_replies import close_reply_folder, open_reply_folder, tell_how_to_continue
from dokimos._cli.measured_report import show_report
from dokimos._cli.options import call_options, check_writable, complete_runs, evaluator_option, run_dir_option

if TYPE_CHECKING:
    from dokimos.evaluators._base import Evaluator
    from dokimos.experiment._run_options import RunOptions
    from dokimos.perturbation._invariance import AnswerPairs, InvarianceReport
    from dokimos.perturbation._perturbing import PerturbationPlan, Perturbed

KINDS: Final = (
    "control", "typos", "case", "whitespace", "punctuation", "injection", "paraphrase", "language",
)  # fmt: skip
"""`PerturbationKind`, which is not imported for the help of other commands."""
NORMALIZED: Final = "equality:ignore_case=true,strip_whitespace=true,strip_punctuation=true"
"""What compares answers unless something else is named."""
FOLDER: Final = Path(".dokimos") / "perturbations"
"""Where replies of models are kept until all versions are made."""


@click.command()
@click.argument("data", metavar="DATASET")
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(dir_okay=False),
    help="Where to: .jsonl .json .csv .tsv .parquet.  [default: NAME-perturbed.jsonl]",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(KINDS),
    help="What is done. Repeatable.  [default: all that needs no model]",
)  # fmt: skip
@click.option(
    "--language", "languages", multiple=True, metavar="NAME",
    help="Translate the inputs into this language. Repeatable.",
)  # fmt: skip
@click.option("--model", metavar="MODEL", help="Who writes paraphrases and translations.")
@click.option("--seed", type=int, default=0, show_default=True, help="Chooses where typos and the like are.")
@click.option("--only-perturbed", is_flag=True, help="Leave the examples themselves out.")
@click.option(
    "--columns", multiple=True, metavar="FROM=TO", help="Names of a foreign file, as in 'dokimos run'."
)
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Only the first N examples.")
@click.option(
    "-j", "--parallelism", type=click.IntRange(min=1), default=8, show_default=True,
    help="Calls of the model at once.",
)  # fmt: skip
@call_options
def perturb(
    data: str,
    output: str | None,
    force: bool,
    languages: Sequence[str],
    model: str | None,
    only_perturbed: bool,
    columns: Sequence[str],
    limit: int | None,
    parallelism: int,
    **options: Any,
) -> int:
    """Add changed versions of the examples, whose answers should be the same.

    \b
    dokimos perturb questions.jsonl
    dokimos perturb questions.jsonl --kind typos --kind paraphrase --model openai:gpt-5-mini

    Run the application on the new data, then ask: dokimos invariance latest
    """
    from dokimos._cli.options import call_keywords
    from dokimos._cli.specs import parse_columns
    from dokimos._cli.targets import load_attribute
    from dokimos._core.text import format_list
    from dokimos.datasets._dataset import Dataset
    from dokimos.errors import ConfigurationError
    from dokimos.experiment._run_options import RunOptions
    from dokimos.perturbation._kinds import WITHOUT_MODEL
    from dokimos.perturbation._perturbing import plan_perturbations

    call_settings = RunOptions(**call_keywords(options))
    dataset = Dataset.load(data, columns=parse_columns(columns))[:limit]
    if not len(dataset):
        raise ConfigurationError(f"{data} has no examples, so there is nothing to perturb.")
    path = _check_path(output or f"{_stem(data)}-perturbed.jsonl", force=force)
    # Who names a language alone wants nothing else.
    chosen = options["kinds"] or (("language",) if languages else WITHOUT_MODEL)
    writer = load_attribute(model) if model is not None and ".py:" in model else model
    plan = plan_perturbations(dataset, kinds=chosen, languages=languages, model=writer, seed=options["seed"])
    if not plan.requests:
        kinds = format_list(list(plan.no_place))
        raise ConfigurationError(f"No input of {data} offers a place for {kinds}; nothing was written.")
    folder = _open_folder(plan)
    made = _make(plan, call_settings, parallelism, with_originals=not only_perturbed, folder=folder)
    made.dataset.save(path)
    # Only now: where the file cannot be written, the replies are all there is.
    close_reply_folder(folder, is_complete=not made.errors and not made.not_asked)
    for line in _summary(made, path):
        echo(line)
    return EXIT_BROKEN if made.errors or made.not_asked else 0


def _stem(data: str) -> str:
    name = data.rstrip("/").rpartition("/")[2].partition("@")[0]
    return Path(name).stem.partition(".")[0] or "data"


def _check_path(output: str, *, force: bool) -> Path:
    from dokimos.datasets._source import find_format

    path = Path(output)
    if find_format(output) is None:
        raise click.UsageError(f"-o {output}: the name ends with .jsonl, .json, .csv, .tsv or .parquet.")
    if path.exists() and not force:
        raise click.UsageError(f"{path} exists; give --force to replace it, or another name with -o.")
    check_writable(path)
    return path


def _open_folder(plan: PerturbationPlan) -> Path | None:
    from dokimos._core.text import pluralize

    if not plan.model_calls:
        return None
    echo(f"{pluralize(plan.model_calls, 'call')} of the model, and more for unusable replies.", err=True)
    return open_reply_folder(FOLDER, [plan.dataset.fingerprint, plan.seed])


def _make(
    plan: PerturbationPlan,
    options: RunOptions,
    parallelism: int,
    *,
    with_originals: bool,
    folder: Path | None,
) -> Perturbed:
    from dokimos._runtime.concurrency import run_sync
    from dokimos.perturbation._perturbing import make_perturbed

    making = make_perturbed(
        plan, options, parallelism=parallelism, with_originals=with_originals, folder=folder
    )
    try:
        return run_sync(making)
    except KeyboardInterrupt:
        tell_how_to_continue(folder)
        raise


def _summary(made: Perturbed, path: Path) -> Iterator[str]:
    from dokimos._core.number_format import usd
    from dokimos._core.text import pluralize

    yield f"wrote {path}   {pluralize(len(made.dataset), 'example')}"
    for kind in KINDS:
        count, missing = made.made.get(kind, 0), made.no_place.get(kind, 0)
        if count or missing:
            note = f"   {pluralize(missing, 'input')} without a place for it" if missing else ""
            yield f"  {kind:<12} {count:>5}{note}"
    if made.metrics is not None and made.metrics.cost_usd is not None:
        yield f"  cost {usd(made.metrics.cost_usd)}"
    for error in made.errors:
        yield f"! {error:.300}"
    if made.not_asked:
        yield f"! {pluralize(made.not_asked, 'version')} not made: the budget does not allow the calls."
    for warning in made.warnings:
        yield f"! {warning}"


@click.command()
@click.argument("result", shell_complete=complete_runs)
@evaluator_option(required=False)
@click.option(
    "--originals", metavar="RESULT", shell_complete=complete_runs,
    help="The run with the answers to the originals, where they are in another one.",
)  # fmt: skip
@click.option(
    "-j", "--parallelism", type=click.IntRange(min=1), default=8, show_default=True, help="Pairs at once."
)
@click.option(
    "--min-rate", metavar="SHARE", help="Exit with 1 where fewer of the answers stay the same: 0.9 or 90%."
)
@call_options
@click.option(
    "-o", "--output", "outputs", multiple=True, metavar="FILE", type=click.Path(dir_okay=False),
    help="Write the report as .json. Repeatable.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@run_dir_option
@click.option("-v", "--verbose", is_flag=True, help="Show every answer that changed.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the share.")
def invariance(
    result: str,
    specs: Sequence[str],
    originals: str | None,
    parallelism: int,
    min_rate: str | None,
    outputs: Sequence[str],
    as_json: bool,
    run_dir: str | None,
    verbose: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Say how often answers stay the same although the input is perturbed.

    RESULT is a run of data that 'dokimos perturb' made. The evaluators compare each answer with that to the
    original, which stands in the place of the expected output: equality without case, punctuation and white
    space unless given; else exact_match, embedding_similarity, correctness with a judge or any other.
    """
    from dokimos._cli.options import call_keywords, check_volume, load_result_argument
    from dokimos._cli.specs import build_evaluators
    from dokimos.experiment._run_options import RunOptions
    from dokimos.perturbation._invariance import pair_answers
    from dokimos.perturbation._view import headline

    check_volume(quiet, verbose)
    share = None if min_rate is None else _parse_share(min_rate)
    for output in outputs:
        if Path(output).suffix.lower() != ".json":
            raise click.UsageError(f"-o {output}: a report on invariance is written as .json.")
        check_writable(Path(output))
    pairing = pair_answers(
        load_result_argument(result, run_dir),
        None if originals is None else load_result_argument(originals, run_dir),
    )
    evaluators = build_evaluators(specs or (NORMALIZED,))
    call_settings = RunOptions(**call_keywords(options))
    folder = _open_judged_folder(pairing, evaluators, quiet=quiet)
    report = _compare(pairing, evaluators, call_settings, parallelism, folder)
    show_report(report, headline(report), outputs, as_json=as_json, verbose=verbose, quiet=quiet)
    close_reply_folder(folder, is_complete=not report.total.errors and not report.total.not_scored)
    return _exit_code(report, share)


def _open_judged_folder(pairing: AnswerPairs, evaluators: Sequence[Evaluator], *, quiet: bool) -> Path | None:
    """Say how often judges are asked, and return the folder for their replies; None where none is asked."""
    from dokimos._core.text import pluralize
    from dokimos.experiment._judge_call_count import count_judge_calls

    pairs = len(pairing.result.item_results)
    count = count_judge_calls(evaluators)
    calls = pairing.differing * count.calls
    if not calls:
        return None
    if not quiet:
        bound = "at most" if count.is_known else "at least"
        echo(
            f"{pluralize(pairs, 'pair')}; {bound} {pluralize(calls, 'call')} of judges.",
            err=True,
        )
    return open_reply_folder(FOLDER, ["invariance", pairing.result.run_id or pairing.result.name, pairs])


def _compare(
    pairing: AnswerPairs,
    evaluators: Sequence[Evaluator],
    options: RunOptions,
    parallelism: int,
    folder: Path | None,
) -> InvarianceReport:
    from dokimos._runtime.concurrency import run_sync
    from dokimos.perturbation._invariance import score_pairs

    scoring = score_pairs(pairing, tuple(evaluators), options, parallelism=parallelism, folder=folder)
    try:
        return run_sync(scoring)
    except KeyboardInterrupt:
        tell_how_to_continue(folder)
        raise


def _parse_share(text: str) -> float:
    from dokimos._core.proportions import parse_proportion

    share = parse_proportion(text)
    if share is None:
        raise click.UsageError(f"--min-rate {text!r} must be a share: 0.9 or 90%.")
    return share


def _exit_code(report: InvarianceReport, share: float | None) -> int:
    from dokimos._core.number_format import percent
    from dokimos._core.text import pluralize

    total = report.total
    if total.rate is None:
        return EXIT_BROKEN
    missing = total.errors + total.not_scored + total.without_original
    if share is not None and (total.same + missing) / (total.pairs + missing) < share:
        echo(f"{percent(total.rate)} of the answers stay the same; required: {percent(share)}.", err=True)
        return EXIT_BELOW
    if share is not None and total.same / (total.pairs + missing) < share:
        pairs = pluralize(missing, "pair")
        echo(
            f"{percent(total.rate)} of the answers stay the same, but {pairs} without a verdict decide about "
            f"{percent(share)}.",
            err=True,
        )
        return EXIT_BROKEN
    return EXIT_BROKEN if total.not_scored else 0

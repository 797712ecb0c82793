"""`dokimos generate`: cases from documents, schemas, traces and cases, and the list for their review."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dokimos._cli.echo import echo
from dokimos._cli.exit_codes import EXIT_BROKEN
from dokimos._cli.kept_replies import close_reply_folder, open_reply_folder, tell_how_to_continue
from dokimos._cli.options import call_options, check_writable

if TYPE_CHECKING:
    from dokimos.experiment._run_options import RunOptions
    from dokimos.generation._generating import Generation
    from dokimos.generation._plan import GenerationPlan
    from dokimos.generation._review_case import ReviewCase
    from dokimos.judges._protocol import JudgeLike

KINDS: Final = ("document", "schema", "trace", "cases")
"""`SourceKind`, which is not imported for the help of other commands."""
FOLDER: Final = Path(".dokimos") / "generations"
"""Where replies of models are kept until all calls have one."""
ALL: Final = "all"


class GenerateGroup(click.Group):
    """Generates cases where no subcommand is named: `dokimos generate handbook.md`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # A file called like a subcommand needs `run` before it.
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=GenerateGroup)
def generate() -> None:
    """Let a model write cases, review them, and make a data set of those that were accepted.

    `dokimos generate SOURCE...` is `dokimos generate run SOURCE...`.
    """


@generate.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--model", required=True, metavar="MODEL", help="Who writes the cases.")
@click.option(
    "-o", "--output", default="review.jsonl", show_default=True, metavar="FILE",
    type=click.Path(dir_okay=False), help="The review list; one that is there is continued.",
)  # fmt: skip
@click.option(
    "-n", "--count", type=click.IntRange(min=1), default=20, show_default=True, help="Cases to ask for."
)
@click.option(
    "--as", "kind", type=click.Choice(KINDS), help="What the sources are.  [default: what they look like]"
)
@click.option(
    "--category", "categories", multiple=True, metavar="NAME[=MEANING]",
    help="A kind of cases that there should be. Repeatable.",
)  # fmt: skip
@click.option("--weak", metavar="MODEL", help="A weak model whose failures measure the difficulty.")
@click.option(
    "--existing", multiple=True, metavar="DATASET", help="Cases that are not wanted again. Repeatable."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Chooses among the passages.")
@click.option(
    "-j", "--parallelism", type=click.IntRange(min=1), default=8, show_default=True, help="Calls at once."
)
@click.option("--dry-run", is_flag=True, help="Say what would be asked; ask nothing.")
@call_options
@click.option("-v", "--verbose", is_flag=True, help="Show all cases to check, and what was rejected.")
def run(
    sources: Sequence[str],
    output: str,
    kind: str | None,
    existing: Sequence[str],
    parallelism: int,
    dry_run: bool,
    verbose: bool,
    **options: Any,
) -> int:
    """Let a model write cases from sources; they wait in a list for a person.

    \b
    dokimos generate handbook.md policies/ --model openai:gpt-5 -n 40
    dokimos generate review review.jsonl
    dokimos generate accept review.jsonl -o cases.jsonl

    SOURCE is a file, a folder or a pattern: text, Markdown, HTML, PDF or files of office programs; a JSON
    Schema; an export of traces; a data set.
    """
    from dokimos._cli.options import call_keywords
    from dokimos.experiment._run_options import RunOptions
    from dokimos.generation._plan import plan_generation
    from dokimos.generation._review_list import read_review_list
    from dokimos.generation._sources import read_sources

    call_settings = RunOptions(**call_keywords(options))
    check_writable(Path(output))
    listed = read_review_list(output) if Path(output).exists() else ()
    plan = plan_generation(
        read_sources(sources, kind=kind),
        model=_load_model(options["model"]),
        weak=None if options["weak"] is None else _load_model(options["weak"]),
        count=options["count"],
        categories=_parse_categories(options["categories"]),
        known=_read_inputs(existing),
        listed=listed,
        seed=options["seed"],
    )
    echo(_describe(plan), err=not dry_run)
    if dry_run:
        return 0
    folder = open_reply_folder(FOLDER, plan.marks)
    generation = _generate(plan, call_settings, parallelism, folder)
    generation.print(verbose=verbose)
    _add_to_list(output, generation)
    # Only now: where the list cannot be written, the replies are all there is.
    close_reply_folder(folder, is_complete=generation.is_complete)
    echo(f"  list     {output}   dokimos generate review {output}")
    return 0 if generation.is_complete else EXIT_BROKEN


def _load_model(model: str) -> JudgeLike:
    from dokimos._cli.targets import load_attribute

    loaded: JudgeLike = load_attribute(model) if ".py:" in model else model
    return loaded


def _parse_categories(texts: Sequence[str]) -> dict[str, str] | None:
    categories = {}
    for text in texts:
        name, _, meaning = text.partition("=")
        if not name.strip():
            raise click.UsageError(f"--category {text!r} must be NAME or NAME=MEANING.")
        categories[name.strip()] = meaning.strip() or name.strip()
    return categories or None


def _read_inputs(datasets: Sequence[str]) -> list[str]:
    from dokimos.datasets._dataset import Dataset
    from dokimos.generation._sources import inputs_text

    return [inputs_text(example) for uri in datasets for example in Dataset.stream(uri)]


def _describe(plan: GenerationPlan) -> str:
    from dokimos._core.text import pluralize

    calls = pluralize(len(plan.orders), "call")
    text = f"{plan.count} cases asked for from {pluralize(len(plan.sources), 'source')}: {calls} of the model"
    if plan.weak is not None:
        tries = (plan.calls - len(plan.orders)) // 2
        text += f", at most {tries} of the weak model and as many to judge its answers"
    return f"{text}; more for unusable replies."


def _add_to_list(output: str, generation: Generation) -> None:
    """Add new cases to the list as it is now: a person may have decided since it was read."""
    from dokimos.generation._review_list import (
        hold_review_list,
        merge_review_lists,
        read_review_list,
        write_review_list,
    )

    with hold_review_list(output):
        listed = read_review_list(output) if Path(output).exists() else ()
        write_review_list(output, merge_review_lists(listed, generation.cases))


def _generate(plan: GenerationPlan, options: RunOptions, parallelism: int, folder: Path | None) -> Generation:
    from dokimos._runtime.concurrency import run_sync
    from dokimos.generation import _generating

    try:
        return run_sync(_generating.generate(plan, options, parallelism=parallelism, folder=folder))
    except KeyboardInterrupt:
        tell_how_to_continue(folder)
        raise


@generate.command()
@click.argument("review_list", metavar="LIST", type=click.Path(dir_okay=False))
@click.option(
    "--accept", "accepted", multiple=True, metavar="ID|all",
    help="Accept this case, or all that are pending. Repeatable.",
)  # fmt: skip
@click.option("--reject", "rejected", multiple=True, metavar="ID", help="Reject this case. Repeatable.")
@click.option("-v", "--verbose", is_flag=True, help="Show all cases to check.")
def review(review_list: str, accepted: Sequence[str], rejected: Sequence[str], verbose: bool) -> int:
    """Say what is in a review list and what a person must check; accept and reject cases.

    The list has a case in each line, with a "status" that an editor can change, too: pending, accepted or
    rejected.
    """
    from dokimos.generation._review_case import ReviewStatus
    from dokimos.generation._review_list import (
        decide,
        hold_review_list,
        read_review_list,
        write_review_list,
    )
    from dokimos.generation._view import review_blocks
    from dokimos.reporting._blocks import print_blocks
    from dokimos.reporting._console import make_console

    if both := set(accepted) & set(rejected):
        raise click.UsageError(f"{', '.join(sorted(both))}: accept or reject it, not both.")
    cases = read_review_list(review_list)
    if accepted or rejected:
        with hold_review_list(review_list):
            cases = decide(read_review_list(review_list), rejected, ReviewStatus.REJECTED)
            cases = decide(cases, _expand(cases, accepted), ReviewStatus.ACCEPTED)
            write_review_list(review_list, cases)
    print_blocks(review_blocks(cases, all_of_them=verbose), make_console())
    return 0


def _expand(cases: Sequence[ReviewCase], ids: Sequence[str]) -> list[str]:
    from dokimos.generation._review_case import ReviewStatus

    pending = [case.id for case in cases if case.status is ReviewStatus.PENDING] if ALL in ids else []
    return [*pending, *(one for one in ids if one != ALL)]


@generate.command()
@click.argument("review_list", metavar="LIST", type=click.Path(dir_okay=False))
@click.option(
    "-o", "--output", metavar="FILE", required=True, type=click.Path(dir_okay=False),
    help="Where to: .jsonl .json .csv .tsv .parquet.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def accept(review_list: str, output: str, force: bool) -> int:
    """Make a data set of the cases that were accepted, and of no others."""
    from dokimos._core.text import pluralize
    from dokimos.errors import ConfigurationError
    from dokimos.generation._review_case import ReviewStatus
    from dokimos.generation._review_list import build_dataset, read_review_list

    path = Path(output)
    if path.exists() and not force:
        raise click.UsageError(f"{path} exists; give --force to replace it, or another name with -o.")
    cases = read_review_list(review_list)
    dataset = build_dataset(cases, name=path.stem)
    if not len(dataset):
        raise ConfigurationError(
            f"No case in {review_list} is accepted. Set the status of cases to accepted there, or name them: "
            f"dokimos generate review {review_list} --accept ID"
        )
    dataset.save(path)
    pending = sum(case.status is ReviewStatus.PENDING for case in cases)
    echo(f"wrote {path}   {pluralize(len(dataset), 'example')}")
    if pending:
        echo(f"! {pluralize(pending, 'case')} still pending in {review_list}.", err=True)
    return 0

"""`dokimos import`: configurations of other tools as suites, and their exports as data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dokimos._cli.echo import echo
from dokimos._cli.exit_codes import EXIT_BELOW

if TYPE_CHECKING:
    from dokimos._core.example import Example
    from dokimos.importers._promptfoo.conversion import Converted
    from dokimos.importers._promptfoo.conversion_notes import Notes

F = TypeVar("F", bound=Callable[..., Any])


@click.group("import")
def import_() -> None:
    """Turn the configuration or the exports of another tool into suites or data sets."""


@import_.command()
@click.argument("config", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "-o", "--output", default="agent.yaml", show_default=True, metavar="FILE",
    type=click.Path(dir_okay=False),
    help="The suite file; if there are several, the others are written beside it.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("--strict", is_flag=True, help="Exit with 1 where something could not be converted.")
@click.option(
    "--run-programs", is_flag=True,
    help="Run the programs of the configuration that make variables (transformVars); only for one you trust.",
)  # fmt: skip
def promptfoo(config: str, output: str, force: bool, strict: bool, run_programs: bool) -> int:
    """Convert a configuration of promptfoo.

    Prompts, providers, tests and assertions become suites.

    What could not be converted is listed, and stands in the head of the suite. Several prompts or providers
    make one suite each.

    \b
    dokimos import promptfoo promptfooconfig.yaml -o agent.yaml
    """
    from dokimos.exporters._base import write_report
    from dokimos.importers._promptfoo.conversion import convert

    target = Path(output)
    converted = convert(Path(config), stem=target.stem, runs_programs=run_programs)
    files = _files(converted, config, target)
    # All of them before any is written, so that there are no halves.
    _check_free(files, force=force)
    for path, text in files.items():
        write_report(path, text)
        echo(f"wrote {path}")
    for line in converted.notes.lines():
        echo(f"! {line}")
    return EXIT_BELOW if strict and converted.notes.lost else 0


def _files(converted: Converted, config: str, target: Path) -> dict[Path, str]:
    head = [f"# Converted from {Path(config).name} of promptfoo."]
    head += [f"# {_in_one_line(line)}" for line in converted.notes.lines()]
    files = {
        target.with_name(f"{Path(name).stem}{target.suffix or '.yaml'}"): "\n".join(head)
        + "\n"
        + _yaml(suite)
        for name, suite in converted.suites.items()
    }
    if converted.module:
        files[target.with_name(converted.module_name)] = converted.module
    return files


def _in_one_line(text: str) -> str:
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def _yaml(suite: dict[str, Any]) -> str:
    import yaml

    from dokimos._core.yaml_scalars import dumper_class

    text: str = yaml.dump(suite, Dumper=dumper_class(), sort_keys=False, allow_unicode=True, width=100)
    return text


def _check_free(files: dict[Path, str], *, force: bool) -> None:
    from dokimos.errors import ConfigurationError

    existing = [path for path in files if path.exists()]
    if existing and not force:
        raise ConfigurationError(
            f"{existing[0]} exists already; nothing was written (--force overwrites it)."
        )


def _export_options(command: F) -> F:
    """The file of an export, and where the data set goes."""
    for option in reversed((
        click.argument("export", type=click.Path(exists=True, dir_okay=False)),
        click.option(
            "-o", "--output", default="data.jsonl", show_default=True, metavar="FILE",
            type=click.Path(dir_okay=False),
            help="The data set: .jsonl, which is written as it is read, .json, .csv or .parquet; also .gz.",
        ),
        click.option("--force", is_flag=True, help="Overwrite an existing file."),
        click.option("--strict", is_flag=True, help="Exit with 1 where something was not taken over."),
    )):  # fmt: skip
        command = option(command)
    return command


def _key_options(command: F) -> F:
    """Which of several inputs and outputs evaluators read."""
    for option in (
        click.option("--output-key", metavar="KEY", help="The key of outputs that becomes 'output'."),
        click.option("--input-key", metavar="KEY", help="The key of inputs that becomes 'input'."),
    ):
        command = option(command)
    return command


@import_.command()
@_export_options
def deepeval(export: str, output: str, force: bool, strict: bool) -> int:
    """Convert goldens or a test run of DeepEval.

    Reads what EvaluationDataset.save_as writes (JSON, JSONL, CSV), also of conversations, and test runs
    such as .deepeval/.latest_test_run.json. Scores become metadata.

    \b
    dokimos import deepeval goldens.json -o data.jsonl
    """
    from dokimos.importers._exports.deepeval import read_examples

    return _write(export, output, read_examples, force=force, strict=strict)


@import_.command()
@_export_options
def ragas(export: str, output: str, force: bool, strict: bool) -> int:
    """Convert an evaluation data set or results of Ragas.

    Reads what to_jsonl and to_csv write, of single questions and of conversations, and results that were
    written with to_pandas. Scores become metadata.

    \b
    dokimos import ragas samples.jsonl -o data.jsonl
    """
    from dokimos.importers._exports.ragas import read_examples

    return _write(export, output, read_examples, force=force, strict=strict)


@import_.command()
@_export_options
@_key_options
@click.option(
    "--scores", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    help="The export of the scores; they become metadata of their traces.",
)  # fmt: skip
def langfuse(
    export: str, output: str, force: bool, strict: bool, scores: str | None,
    input_key: str | None, output_key: str | None,
) -> int:  # fmt: skip
    """Convert data sets, traces and scores of Langfuse.

    Reads exports of its tables (CSV, JSON, JSONL), the JSON of one trace or session, and replies of its API.
    Traces become rows with recorded outputs.

    \b
    dokimos import langfuse items.csv -o data.jsonl --output-key answer
    """
    from dokimos.importers._exports.langfuse import read_examples, read_scores
    from dokimos.importers._exports.options import ImportOptions

    def read(path: Path, notes: Notes) -> Iterable[Example]:
        by_trace = read_scores(Path(scores), notes) if scores else {}
        options = ImportOptions(input_key=input_key, output_key=output_key, scores=by_trace)
        return read_examples(path, notes, options)

    return _write(export, output, read, force=force, strict=strict)


@import_.command()
@_export_options
@_key_options
def phoenix(
    export: str, output: str, force: bool, strict: bool, input_key: str | None, output_key: str | None
) -> int:
    """Convert data sets and spans of Phoenix.

    Reads downloads of data sets (CSV, JSON, JSONL), and spans that were written from get_spans_dataframe
    (Parquet, JSONL, CSV). Traces become rows with recorded outputs.

    \b
    dokimos import phoenix spans.parquet -o data.jsonl
    """
    from dokimos.importers._exports.options import ImportOptions
    from dokimos.importers._exports.phoenix import read_examples

    options = ImportOptions(input_key=input_key, output_key=output_key)
    return _write(
        export, output, lambda path, notes: read_examples(path, notes, options), force=force, strict=strict
    )


def _write(
    export: str, output: str, read: Callable[[Path, Notes], Iterable[Example]], *, force: bool, strict: bool
) -> int:
    from dokimos.importers._exports.conversion import write_examples
    from dokimos.importers._promptfoo.conversion_notes import Notes

    notes = Notes()
    source = Path(export)
    count = write_examples(read(source, notes), Path(output), source=source, force=force)
    echo(f"wrote {output}: {count} {'example' if count == 1 else 'examples'}")
    for line in notes.lines():
        echo(f"! {_in_one_line(line)}")
    return EXIT_BELOW if strict and notes.lost else 0

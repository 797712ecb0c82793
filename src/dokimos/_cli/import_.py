"""`dokimos import`: configurations of other tools, as suites."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dokimos._cli.echo import echo
from dokimos._cli.exit_codes import EXIT_BELOW

if TYPE_CHECKING:
    from dokimos.importers._promptfoo.conversion import Converted


@click.group("import")
def import_() -> None:
    """Turn the configuration of another tool into suites."""


@import_.command()
@click.argument("config", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "-o", "--output", default="agent.yaml", show_default=True, metavar="FILE",
    type=click.Path(dir_okay=False),
    help="The suite file; if there are several, the others are written beside it.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("--strict", is_flag=True, help="Exit with 1 where something could not be converted.")
def promptfoo(config: str, output: str, force: bool, strict: bool) -> int:
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
    converted = convert(Path(config), stem=target.stem)
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

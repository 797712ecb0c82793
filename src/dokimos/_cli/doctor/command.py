"""`dokimos doctor`: what this machine has, and what to do about what it lacks."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Final

import click

from dokimos._cli.doctor.finding import SIGNS, Finding
from dokimos._cli.echo import echo
from dokimos._cli.options import run_dir_option

EXIT_MISSING: Final = 1
INDENT: Final = " " * 6
REMEDY_INDENT: Final = "      -> "


@click.command()
@click.argument("target", required=False)
@click.option(
    "--judge", "judges", multiple=True, metavar="NAME",
    help="Ask this model, too, such as openai:gpt-5-mini or http://localhost:8000/v1#model. Repeatable.",
)  # fmt: skip
@click.option("--no-ask", is_flag=True, help="Ask no model and connect to nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@run_dir_option
def doctor(
    target: str | None, judges: Sequence[str], no_ask: bool, as_json: bool, run_dir: str | None
) -> int:
    """Say what this machine has of what dokimos can use, and what to do about what is missing.

    TARGET is a suite or an experiment; what it needs is marked, its judges are each asked one short question,
    and the exit code is 1 where something that it needs is missing.
    """
    found = list(_findings(target, judges, no_ask=no_ask, run_dir=run_dir))
    if as_json:
        echo(json.dumps([asdict(each) for each in found], indent=2, ensure_ascii=False))
    else:
        for line in table(found, shutil.get_terminal_size((80, 24)).columns):
            echo(line)
    return EXIT_MISSING if any(each.is_missing for each in found) else 0


def _findings(
    target: str | None, judges: Sequence[str], *, no_ask: bool, run_dir: str | None
) -> Iterator[Finding]:
    from dokimos._cli.doctor import endpoints, machine
    from dokimos._cli.doctor.target import Needs, find_needs
    from dokimos.judges._factory import judge

    needs = Needs() if target is None else find_needs(target)
    named = [judge(name) for name in judges]
    yield from needs.faults
    yield from machine.find_versions()
    yield from machine.find_extras(needs.extras)
    yield from machine.find_keys(needs.keys)
    yield from machine.find_wordnet(needs.wordnet)
    if not no_ask:
        yield from endpoints.find_base_urls()
        for url in needs.urls:
            yield endpoints.find_url("agent", url, is_needed=True)
        yield from endpoints.find_judges(needs.judges, is_needed=True)
        yield from endpoints.find_judges(named, is_needed=False)
    yield from machine.find_browser()
    yield from machine.find_folders(run_dir)


def table(findings: Sequence[Finding], columns: int) -> Iterator[str]:
    """Yield the findings by group, no line wider than so many columns."""
    width = max(30, min(columns, 100) - 1)
    for group, several in groupby(findings, key=lambda each: each.group):
        members = list(several)
        room = min(max(len(each.name) for each in members), 22)
        yield group
        for each in members:
            head = f"  {SIGNS[each.state]} {each.name:<{room}}  "
            yield from _wrap(head, f"{each.found}{' (needed)' if each.is_needed else ''}", width)
            if each.remedy and each.state != "ok":
                yield f"{REMEDY_INDENT}{each.remedy}"  # whole, so that it can be copied
    missing = [each.name for each in findings if each.is_missing]
    yield ""
    if missing:
        yield from _wrap("", f"Missing: {', '.join(missing)}.", width)
    else:
        yield "Nothing that is needed is missing."


def _wrap(head: str, text: str, width: int) -> list[str]:
    if len(head) > width // 2:  # a long name has a line of its own
        return [head.rstrip(), *textwrap.wrap(text, width, initial_indent=INDENT, subsequent_indent=INDENT)]
    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * len(head)) or [head]

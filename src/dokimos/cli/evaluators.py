"""`dokimos evaluators`: which there are, and what each takes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from dokimos.cli.echo import echo
from dokimos.cli.options import complete_evaluators
from dokimos.errors import DokimosError

if TYPE_CHECKING:
    from dokimos.evaluators.parameters import EvaluatorDoc


@click.command()
@click.argument("name", required=False, shell_complete=complete_evaluators)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the parameters.")
def evaluators(name: str | None, schema: bool) -> int:
    """List the evaluators, or explain one."""
    from dokimos.evaluators import registry

    if name is None:
        if schema:
            raise click.UsageError("--schema needs the NAME of an evaluator.")
        _print_list()
    elif schema:
        echo(json.dumps(registry.schema(name), indent=2))
    else:
        _print_one(registry.describe(name))
    return 0


def _print_list() -> None:
    from dokimos.evaluators import registry

    names = registry.names()
    room = max(map(len, names))
    for name in names:
        echo(f"{name:<{room}}  {_purpose(name)}")
    echo("\nExplain one: dokimos evaluators NAME")


def _purpose(name: str) -> str:
    from dokimos.evaluators import registry

    try:
        return registry.describe(name).purpose
    except DokimosError as error:  # a plugin that cannot be loaded hides none of the others
        return f"! {error}"


def _print_one(doc: EvaluatorDoc) -> None:
    echo(f"{doc.name} ({doc.class_name.partition(':')[2]}): {doc.purpose}\n")
    facts = {
        "result name": doc.result_name,
        "needs": ", ".join(doc.requires) or "nothing",
        "threshold": "none (informs only)" if doc.threshold is None else f"{doc.threshold:g}",
        "better": "lower" if doc.lower_is_better else "higher",
        "repeatable": "yes" if doc.deterministic else "no",
    }
    if doc.extra:
        facts["install"] = f"pip install dokimos[{doc.extra}]"
    for what, fact in facts.items():
        echo(f"  {what:<12} {fact}")
    echo("\nParameters")
    for parameter in doc.parameters:
        default = "required" if parameter.required else f"default {parameter.default!r}"
        echo(f"  {parameter.name} ({parameter.type}, {default})")
        if parameter.description:
            echo(f"      {parameter.description}")

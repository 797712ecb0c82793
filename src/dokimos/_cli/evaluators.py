"""`dokimos evaluators`: which there are, and what each takes."""

from __future__ import annotations

import json
import shutil
import textwrap
from typing import TYPE_CHECKING, Final

import click

from dokimos._cli.echo import echo
from dokimos._cli.options import complete_evaluators
from dokimos._runtime.start_collector import start_collector
from dokimos.errors import DokimosError

if TYPE_CHECKING:
    from dokimos.evaluators._parameters import EvaluatorDoc, EvaluatorSummary

GROUPS: Final = {
    "expected": "Compare the output with an expected value",
    "output": "Look at the output alone",
    "llm": "Ask a judge about the output",
    "contexts": "Look at what was retrieved (contexts)",
    "agent": "Look at tool calls and plans",
    "conversation": "Look at a conversation",
    "own": "Of this project and of its packages",
}
"""What evaluators are for, in the order in which they are listed."""


@click.command()
@click.argument("name", required=False, shell_complete=complete_evaluators)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the parameters.")
@start_collector.manage()
def evaluators(name: str | None, schema: bool) -> int:
    """List the evaluators, or explain one."""
    from dokimos.evaluators import registry

    if name is not None:
        name = registry.name_of_class(name) or name
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
    groups = _groups()
    room = min(max(len(name) for members in groups.values() for name, _ in members), 22)
    for heading, members in groups.items():
        lines = [line for name, purpose in members for line in _entry(name, purpose, room)]
        echo("\n".join([heading, *lines, ""]))
    echo("Explain one: dokimos evaluators NAME")


def _groups() -> dict[str, list[tuple[str, str]]]:
    """Return name and purpose of each evaluator by what it is for."""
    from dokimos.evaluators import registry
    from dokimos.evaluators._parameters import summarize

    groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading in GROUPS.values()}
    for name in registry.names():
        try:
            summary = summarize(name, registry.find(name))
        except DokimosError as error:  # a plugin that cannot be loaded hides none of the others
            groups[GROUPS["own"]].append((name, f"! {error}"))
        else:
            heading = GROUPS[find_group(summary) if name in registry.BUILT_IN else "own"]
            groups[heading].append((name, summary.purpose + _notes(summary, heading)))
    return {heading: members for heading, members in groups.items() if members}


def find_group(summary: EvaluatorSummary) -> str:
    """Return what an evaluator is for, as a key of `GROUPS`."""
    package = summary.class_name.split(".")[2].removeprefix("_")
    if package in ("conversation", "agent"):
        return package
    if {"contexts", "context", "retrieved"} & set(summary.requires) or package in ("rag", "retrieval"):
        return "contexts"
    if package == "llm":
        return "llm"
    expects = (
        any(part.startswith("expected") for part in summary.requires) or summary.name == "structural_match"
    )
    return "expected" if expects else "output"


def _notes(summary: EvaluatorSummary, heading: str) -> str:
    """Say what else it needs, where its heading does not."""
    asks_judge = not {"judge", "judges"}.isdisjoint(summary.parameter_names)
    notes = ["a judge"] if asks_judge and heading != GROUPS["llm"] else []
    if heading not in (GROUPS["expected"], GROUPS["agent"]):
        notes += (
            ["an expected value"] if any(part.startswith("expected") for part in summary.requires) else []
        )
    notes += [f"the extra {summary.extra}"] if summary.extra else []
    return f" Needs {join_words(notes)}." if notes else ""


def join_words(words: list[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _entry(name: str, purpose: str, room: int) -> list[str]:
    width = _width()
    head, indent = f"  {name:<{room}}  ", " " * (room + 4)
    if len(name) > room:
        wrapped = textwrap.wrap(purpose, width, initial_indent=indent, subsequent_indent=indent)
        return [f"  {name}", *wrapped]
    return textwrap.wrap(purpose, width, initial_indent=head, subsequent_indent=indent) or [head.rstrip()]


def _print_one(doc: EvaluatorDoc) -> None:
    _echo_wrapped(f"{doc.name} ({doc.class_name.partition(':')[2]}): {doc.purpose}", "")
    echo()
    facts = {
        "result name": doc.result_name,
        "threshold": "none (informs only)" if doc.threshold is None else f"{doc.threshold:g}",
        "better": "lower" if doc.lower_is_better else "higher",
        "repeatable": "yes" if doc.deterministic else "no",
    } | _cost_and_source(doc)
    for what, fact in facts.items():
        for line in _entry(what, fact, 11):
            echo(line)
    _print_needs(doc)
    types = _types(doc)
    echo("\nParameters")
    for parameter in doc.parameters:
        default = "required" if parameter.required else f"default {parameter.default!r}"
        _echo_wrapped(f"{parameter.name} ({types.get(parameter.name, parameter.type)}; {default})", "  ")
        if parameter.description:
            _echo_wrapped(parameter.description, " " * 6)


def _cost_and_source(doc: EvaluatorDoc) -> dict[str, str]:
    """Return what only our own evaluators say of themselves."""
    from dokimos.evaluators import registry

    if doc.name not in registry.BUILT_IN:
        return {}
    return {"judge calls": doc.judge_calls, "method": doc.method_source}


def _echo_wrapped(text: str, indent: str) -> None:
    echo("\n".join(textwrap.wrap(text, _width(), initial_indent=indent, subsequent_indent=indent)))


def _width() -> int:
    # One less than the terminal has: some wrap a line that fills it exactly.
    return max(40, min(shutil.get_terminal_size((100, 24)).columns, 110) - 1)


def _types(doc: EvaluatorDoc) -> dict[str, str]:
    from dokimos._core.score_range import USUAL_RANGE
    from dokimos.evaluators._type_words import parameter_types
    from dokimos.evaluators.registry import find

    kind = find(doc.name)
    types = parameter_types(kind)
    if getattr(kind, "score_range", None) == USUAL_RANGE:
        types["threshold"] = "number 0 to 1, or nothing"
    return types


def _print_needs(doc: EvaluatorDoc) -> None:
    from dokimos.evaluators._needs import example_code, needs_of

    needs = needs_of(doc)
    room = max((len(need.name) for need in needs), default=0)
    echo("\nNeeds")
    for need in needs:
        for line in _entry(need.name.replace("`", ""), need.how.replace("`", ""), room):
            echo(line)
    if not needs:
        echo("  nothing but a case; its parameters say what it looks at")
    echo("\nA case that has it")
    for line in example_code(doc).splitlines():
        echo(f"  {line}")

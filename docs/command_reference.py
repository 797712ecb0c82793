"""Sphinx extension: puts every command with all its options, made from the parser, where a page asks."""

import inspect
import re

import click
from generated import add_part
from tables import code, table

from dokimos._cli.main import cli

MARK = "<!-- command reference -->"


def setup(app):
    add_part(app, MARK, reference)
    return {"version": "1", "parallel_read_safe": True}


def reference():
    """Return a section for each command, and one below it for each command of a group."""
    root = click.Context(cli, info_name="dokimos")
    names = cli.list_commands(root)
    sections = [section(cli.get_command(root, name), name, root, "##") for name in names]
    return "\n\n".join([*sections, f"## Exit codes\n\n{sentences(cli.epilog)}"])


def section(command, name, parent, level):
    context = click.Context(command, info_name=name, parent=parent, terminal_width=200)
    parts = [f"{level} {context.command_path}", describe(command.help or ""), usage(command, context)]
    parts += [options_of(command, context)]
    if isinstance(command, click.Group):
        members = [command.get_command(context, each) for each in command.list_commands(context)]
        parts += [section(each, each.name, context, f"{level}#") for each in members if not each.hidden]
    return "\n\n".join(part for part in parts if part)


def usage(command, context):
    pieces = " ".join(command.collect_usage_pieces(context))
    return f"```text\n{context.command_path} {pieces}\n```"


def describe(text):
    """Return a help text as Markdown; click shows paragraphs that begin with \\b as they are."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n\n".join(
        f"```text\n{paragraph[2:]}\n```" if paragraph.startswith("\b\n") else sentences(paragraph)
        for paragraph in paragraphs
    )


def sentences(text):
    return " ".join(text.replace("<", "&lt;").split())


def options_of(command, context):
    records = [(parameter, parameter.get_help_record(context)) for parameter in command.params]
    rows = [
        (code(record[0]), sentences(record[1]) + variable(parameter))
        for parameter, record in records
        if record
    ]
    return table(["Option", "Meaning"], rows) if rows else ""


def variable(parameter):
    return f" Also: {code(parameter.envvar)}." if isinstance(parameter.envvar, str) else ""

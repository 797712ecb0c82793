"""The reference of the commands leaves none out."""

import re

import click

from dokimos._cli.main import cli


def commands_of(command, context):
    yield context.command_path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            yield from commands_of(member, click.Context(member, info_name=name, parent=context))


def test_each_command_has_a_section_with_all_its_options(docs_modules):
    with docs_modules("command_reference") as (module,):
        text = module.reference()
    sections = dict(re.findall(r"^##+ (dokimos [^\n]+)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    commands = dict(commands_of(cli, click.Context(cli, info_name="dokimos")))
    del commands["dokimos"]

    assert set(sections) == set(commands)
    assert len(sections) > 40
    missing = [
        f"{path} {name}"
        for path, command in commands.items()
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for name in parameter.opts
        if not re.search(rf"^\| `[^`]*{re.escape(name)}\b", sections[path], re.MULTILINE)
    ]
    assert missing == []

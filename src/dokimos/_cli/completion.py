"""`dokimos completion`: the script that a shell wants."""

from __future__ import annotations

import click

from dokimos._cli.echo import echo


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion script for a shell.

    \b
    bash   dokimos completion bash > ~/.local/share/bash-completion/completions/dokimos
    zsh    dokimos completion zsh > "${fpath[1]}/_dokimos"
    fish   dokimos completion fish > ~/.config/fish/completions/dokimos.fish
    """
    from click.shell_completion import get_completion_class

    from dokimos._cli.main import cli

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    echo(kind(cli, {}, "dokimos", "_DOKIMOS_COMPLETE").source())
    return 0

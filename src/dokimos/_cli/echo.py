"""The one way in which commands print text."""

from __future__ import annotations

import io

import click

from dokimos._runtime.terminal_text import escape_control_characters


def echo(text: object = "", *, err: bool = False, nl: bool = True, color: str | None = None) -> None:
    """Print text with the control characters in it as escapes, in a colour where the output shows some."""
    escaped = escape_control_characters(str(text))
    click.echo(escaped if color is None else click.style(escaped, fg=color), err=err, nl=nl)


def overwrite_line(text: str) -> None:
    """Put a text in the place of the last line of standard error, a terminal; an empty one removes it."""
    click.echo(f"\r\033[K{escape_control_characters(text)}", err=True, nl=False)


def is_debugging() -> bool:
    """Say whether `--debug` was given."""
    context = click.get_current_context(silent=True)
    return bool(context is not None and (context.find_root().obj or {}).get("debug"))


def show_usage_error(error: click.ClickException) -> None:
    """Print what click says about a wrong usage, which quotes the arguments."""
    text = io.StringIO()
    error.show(text)
    echo(text.getvalue(), err=True, nl=False)

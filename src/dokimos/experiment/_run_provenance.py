"""Where a result comes from: versions, commit, command line. Never the environment."""

from __future__ import annotations

import hashlib
import inspect
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from dokimos.experiment._task import unwrap

_SECRET_WORD: Final = r"(?:key|token|secret|pass|pwd|credential|auth|bearer|cookie|sig)"
_SECRET_OPTION: Final = re.compile(_SECRET_WORD, re.IGNORECASE)
_SECRET_MEMBER: Final = re.compile(
    rf"""({_SECRET_WORD}[\w-]*["']?\s*[:=]\s*["']?(?:(?:bearer|basic)\s+)?)[^"'\s,;&}}]+""", re.IGNORECASE
)
"""As in `{"api_key": "..."}`, `Authorization: Bearer ...`, `?token=...`."""
_SECRET_VALUE: Final = re.compile(
    r"\b(sk-|sk_live_|gh[a-z]_|github_pat_|glpat-|hf_|xox[a-z]-|AKIA|AIza|eyJ)[A-Za-z0-9_\-.]{8,}"
)
_URL_PASSWORD: Final = re.compile(r"(?<=://)([^/@\s:]+):[^/\s]+@")
REDACTED: Final = "***"


def scrub_command(argv: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the command line without the values that follow key-, token- and secret-like options."""
    scrubbed = []
    hide_next = False
    for argument in sys.argv if argv is None else argv:
        if hide_next and not argument.startswith("--"):
            scrubbed.append(REDACTED)
            hide_next = False
            continue
        name, equals, _ = argument.partition("=")
        is_secret = _SECRET_OPTION.search(name) is not None
        hide_next = argument.startswith("-") and is_secret and not equals
        whole = is_secret and bool(equals) and argument.startswith("-")
        scrubbed.append(f"{name}={REDACTED}" if whole else _scrub_value(argument))
    return tuple(scrubbed)


def _scrub_value(argument: str) -> str:
    without_passwords = _URL_PASSWORD.sub(rf"\1:{REDACTED}@", argument)
    return _SECRET_VALUE.sub(REDACTED, _SECRET_MEMBER.sub(rf"\1{REDACTED}", without_passwords))


def git_state() -> tuple[str | None, bool | None]:
    """Return (commit, whether tracked files differ from it); (None, None) outside a repository."""
    commit = _git("rev-parse", "HEAD")
    if not commit:
        return None, None
    # To look for untracked files, git would walk through the whole tree, data and environments included.
    status = _git("status", "--porcelain", "--untracked-files=no")
    return commit, None if status is None else bool(status)


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def python_version() -> str:
    """Return the version of the running Python, such as 3.11.7."""
    return platform.python_version()


def source_hash(thing: object) -> str | None:
    """Return a hash of the source of a function or class, None where it has none."""
    target = unwrap(thing) if callable(thing) else type(thing)
    if not (inspect.isroutine(target) or inspect.isclass(target)):
        target = type(target)
    try:
        source = inspect.getsource(target)
    except (OSError, TypeError):
        return None
    return hashlib.sha256(source.encode()).hexdigest()[:16]

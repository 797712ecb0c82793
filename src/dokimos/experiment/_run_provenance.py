"""Where a result comes from: versions, commit, CI build, command line. Never the whole environment."""

from __future__ import annotations

import hashlib
import inspect
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict
from weakref import WeakKeyDictionary

from dokimos.experiment._ci_environment import clean_url, read_ci_build
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
_USERINFO: Final = re.compile(r"(?<=://)[^/\s]*@")
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


def scrub_source(uri: str) -> str:
    """Return the path or address of a data set without user, password and query of an address."""
    if uri.startswith(("http://", "https://")):
        return clean_url(uri) or REDACTED
    if uri.startswith("dataset://"):  # the sign before the version is not one after a user
        return uri
    return _scrub_value(_USERINFO.sub("", uri))


def _scrub_value(argument: str) -> str:
    without_passwords = _URL_PASSWORD.sub(rf"\1:{REDACTED}@", argument)
    return _SECRET_VALUE.sub(REDACTED, _SECRET_MEMBER.sub(rf"\1{REDACTED}", without_passwords))


class CodeProvenance(TypedDict, total=False):
    """The fields of `Provenance` about the code that ran, and what made it run."""

    git_commit: str | None
    git_dirty: bool | None
    git_branch: str | None
    target_branch: str | None
    pull_request: str | None
    trigger: str | None
    build_url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GitState:
    """The working copy, as git sees it."""

    commit: str | None = None
    branch: str | None = None
    """None where no branch is checked out."""
    dirty: bool | None = None
    """Whether tracked files differ from the commit."""


def read_code_provenance(variables: Mapping[str, str] | None = None) -> CodeProvenance:
    """Return which code runs and why, by the variables of a CI system and by git.

    In a build of a pull request it is the last commit of its own branch, and not the merge that the system
    made to test it.
    """
    git = git_state()
    build = read_ci_build(os.environ if variables is None else variables)
    if build is None:
        return CodeProvenance(git_commit=git.commit, git_dirty=git.dirty, git_branch=git.branch)
    commit, branch = build.identify(git.commit)
    return CodeProvenance(
        git_commit=commit,
        git_dirty=git.dirty,
        git_branch=branch or git.branch,
        target_branch=build.target_branch,
        pull_request=build.pull_request,
        trigger=build.trigger,
        build_url=build.url,
    )


def git_state() -> GitState:
    """Return the state of the repository around the current folder; nothing is known outside of one."""
    found = (_git("rev-parse", "HEAD", "--abbrev-ref", "HEAD") or "").splitlines()
    if len(found) != 2:
        return GitState()
    commit, branch = found
    status = _git("--no-optional-locks", "status", "--porcelain", "--untracked-files=no")
    return GitState(
        commit=commit,
        branch=None if branch == "HEAD" else branch.removeprefix("heads/"),
        dirty=None if status is None else bool(status),
    )


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
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
    known = _class_hashes.get(target) if isinstance(target, type) else None
    if known is not None:
        return known
    try:
        source = inspect.getsource(target)
    except (OSError, TypeError):
        return None
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    if isinstance(target, type):
        _class_hashes[target] = digest
    return digest


# To find a class, `inspect` parses its whole module: for one of 300 lines, that is half of the CPU time of a
# run of one item. What was loaded does not change, whatever happens to its file.
_class_hashes: WeakKeyDictionary[type, str] = WeakKeyDictionary()

"""What there is without asking anybody: extras, keys, WordNet, a browser, folders that can be written to."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Container, Iterator
from importlib import metadata
from pathlib import Path

from dokimos._cli.doctor.finding import Finding, State
from dokimos._version import __version__

_EXTRA = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")
_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?")


def find_versions() -> Iterator[Finding]:
    """Say which dokimos and Python this is."""
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding(group="dokimos", name="dokimos", state="ok", found=f"{__version__}, Python {python}")


def find_extras(needed: Container[str] = ()) -> Iterator[Finding]:
    """Say which extras are installed, by the packages that they stand for."""
    # From the installed metadata, so that there is no list here to forget.
    extras = sorted(metadata.metadata("dokimos").get_all("Provides-Extra") or ())
    for extra in extras:
        missing = list(dict.fromkeys(_missing("dokimos", extra)))
        state = f"without {', '.join(missing)}" if missing else "installed"
        remedy = f'pip install "dokimos[{extra}]"' if missing else ""
        yield _optional("extras", extra, state, remedy, is_needed=extra in needed)


def _optional(group: str, name: str, found: str, remedy: str = "", *, is_needed: bool) -> Finding:
    """Return what was found of something that not everybody needs; with a remedy, it is not there."""
    state: State = ("fault" if is_needed else "absent") if remedy else "ok"
    return Finding(group=group, name=name, state=state, found=found, remedy=remedy, is_needed=is_needed)


def _missing(package: str, extra: str) -> Iterator[str]:
    """Yield the packages of an extra that are not installed, those of its packages' own extras, too."""
    for requirement in metadata.requires(package) or ():
        marker, name = _EXTRA.search(requirement), _NAME.match(requirement)
        if marker is None or name is None or marker[1] != extra:
            continue
        try:
            metadata.distribution(name[1])
        except metadata.PackageNotFoundError:
            yield name[1]
            continue
        for inner in filter(None, (name[2] or "").split(",")):
            yield from _missing(name[1], inner.strip())


def find_keys(needed: Container[str] = ()) -> Iterator[Finding]:
    """Say which providers' keys are in the environment; never what they are."""
    from dokimos.judges._factory import key_variables

    for variable, provider in key_variables().items():
        is_set = bool(os.environ.get(variable))
        found = f"set ({provider})" if is_set else f"not set ({provider})"
        remedy = "" if is_set else f"export {variable}=..."
        yield _optional("keys", variable, found, remedy, is_needed=variable in needed)


def find_wordnet(is_needed: bool = False) -> Iterator[Finding]:
    """Say whether METEOR finds its synonyms."""
    from dokimos.errors import DokimosError
    from dokimos.evaluators._nlp.wordnet import load_wordnet

    try:
        load_wordnet()
    except (DokimosError, OSError) as error:
        remedy = "apt-get install wordnet-base"
        yield _optional("data", "WordNet", str(error), remedy, is_needed=is_needed)
    else:
        yield _optional("data", "WordNet", "found", is_needed=is_needed)


def find_browser() -> Iterator[Finding]:
    """Say whether reports can be opened from here."""
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        yield Finding(
            group="machine",
            name="browser",
            state="absent",
            found="none",
            remedy="write reports with -o, and open them elsewhere",
        )
    else:
        name = getattr(browser, "name", type(browser).__name__)
        yield Finding(group="machine", name="browser", state="ok", found=str(name))


def find_folders(run_dir: str | None = None) -> Iterator[Finding]:
    """Say whether runs and replies can be kept."""
    from dokimos.experiment._run_folders import runs_root
    from dokimos.judges._cache import default_cache_path

    for name, folder in (("runs", runs_root(run_dir)), ("cache", default_cache_path().parent)):
        existing = next(
            existing for existing in (folder, *folder.absolute().parents) if os.path.exists(existing)
        )
        if existing.is_dir() and os.access(existing, os.W_OK):
            yield Finding(group="machine", name=name, state="ok", found=f"{folder} can be written")
            continue
        yield Finding(
            group="machine",
            name=name,
            state="fault",
            found=f"nothing can be written in {Path(existing)}",
            remedy="choose another one: DOKIMOS_RUN_DIR" if name == "runs" else "change its rights",
        )

"""The paths of baselines and verdicts, and what a gate reads from the environment."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from shlex import join, quote
from typing import Final, NamedTuple, Self

from dokimos.errors import ConfigurationError

UPDATE_VARIABLE: Final = "DOKIMOS_UPDATE_BASELINE"
BASELINE_VARIABLE: Final = "DOKIMOS_BASELINE_DIR"
VERDICT_VARIABLE: Final = "DOKIMOS_VERDICT_DIR"
NOISE_SUFFIX: Final = ".noise.json"
BASELINES: Final = Path("tests") / "baselines"
VERDICTS: Final = Path(".dokimos") / "verdicts"

LONGEST_STEM: Final = 200
"""Bytes of a baseline's name, which file systems bound by 255 with all that is put around it."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_NO_FILE_NAME: Final = re.compile(r'[\\/:*?"<>|\x00-\x1f]')
_HOME: Final = ".dokimos"
_CI_VARIABLES: Final = ("CI", "GITHUB_ACTIONS")
_TEST_VARIABLE: Final = "PYTEST_CURRENT_TEST"
_XDIST_GROUP: Final = re.compile(r"@[^\]/:]*$")
"""What xdist writes behind a node id with `--dist loadgroup`; pytest does not find the test by that."""


class Session(NamedTuple):
    """The folders of a pytest session."""

    root: Path
    """The project, to which the ids of tests are relative."""
    start: Path
    """The folder that the session was started in."""

    @classmethod
    def current(cls) -> Self | None:
        """Return the innermost session that runs in this process; None outside pytest.

        The plugin knows; it does not tell, since it loads nothing of ours in suites that do not use it.
        """
        plugin = sys.modules.get("dokimos.testing._plugin")
        sessions = getattr(plugin, "SESSIONS", ())
        return cls(*sessions[-1]) if sessions else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateEnvironment:
    """What a gate reads from its process: folders, environment variables, the command."""

    root: Path
    """The project: relative places are inside it."""
    variables: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = ()
    session: Session | None = None
    """The test session that runs, where there is one."""
    start: Path | None = None
    """The folder that commands are typed in; the root unless given."""

    @classmethod
    def here(cls, root: Path | None = None) -> Self:
        """Take them from this process; the root is the test session's, else the project's, unless given."""
        session = Session.current()
        start = Path.cwd() if session is None else session.start
        if root is None:
            root = project_root(start) if session is None else session.root
        return cls(
            root=Path(root),
            variables=dict(os.environ),
            command=tuple(sys.argv),
            session=session,
            start=start,
        )

    @property
    def in_ci(self) -> bool:
        return any(truthy(self.variables.get(name)) for name in _CI_VARIABLES)

    @property
    def wants_update(self) -> bool:
        return truthy(self.variables.get(UPDATE_VARIABLE))

    @property
    def baseline_dir(self) -> Path:
        return self.root / (self.variables.get(BASELINE_VARIABLE) or BASELINES)

    @property
    def verdict_dir(self) -> Path:
        return self.root / (self.variables.get(VERDICT_VARIABLE) or VERDICTS)

    def baseline_path(self, name: str | Path | None, experiment: str) -> Path:
        """Return the file of a baseline given by name or path, else by the name of the experiment.

        Raises:
            ConfigurationError: where there is no name that would tell two experiments apart.
        """
        if isinstance(name, Path):
            return name
        chosen = experiment if name is None else name
        stem = _NO_FILE_NAME.sub("-", chosen).strip(". ")
        # The default name of an experiment: two of them would share one baseline.
        if not stem or chosen == "unnamed":
            raise ConfigurationError(
                "The gate needs a name for its baseline: name the experiment, or pass a name or a "
                "path to the gate."
            )
        if len(stem.encode("utf-8", "replace")) > LONGEST_STEM:
            raise ConfigurationError(
                f"The name {stem!r:.60} is too long for a file (more than {LONGEST_STEM} bytes): give a "
                "shorter one, or a path."
            )
        return self.baseline_dir / f"{stem}.json"

    def find_similar_baseline(self, path: Path) -> Path | None:
        """Return the baseline beside a missing one whose name is nearly the same, None if there is none."""
        from difflib import get_close_matches

        files = sorted(path.parent.glob("*.json"))
        stems = [file.stem for file in files if not file.name.endswith(NOISE_SUFFIX)]
        similar = get_close_matches(path.stem, stems, n=1, cutoff=0.8)
        return path.with_stem(similar[0]) if similar else None

    def gate_name(self, baseline: Path) -> str:
        """Return what tells the gate of a baseline file from all others of the repository.

        That is its stem in the usual folder at the top of the repository, and its path from there elsewhere.
        """
        top = repository(self.root).resolve()
        if self.root.resolve() == top and baseline.parent.resolve() == self.baseline_dir.resolve():
            return baseline.stem
        return relative(baseline.resolve(), top)

    def accept_command(self) -> str:
        """Return the command that repeats this run and accepts its result as the baseline."""
        test = running_test(self.variables)
        again = f"pytest {quote(self._format_test_id(test))}" if test else self._format_command()
        return f"{UPDATE_VARIABLE}=true {again}"

    def _format_test_id(self, test: str) -> str:
        """Return the id of a test relative to the folder in which the session was started."""
        file, colons, name = test.partition("::")
        if self.session is None or not (self.session.root / file).exists():
            return test
        return relative(self.session.root / file, self.session.start) + colons + name

    def _format_command(self) -> str:
        program, *arguments = self.command or ("",)
        name = Path(program).name
        if not name:
            return "COMMAND"
        # `python -m package` puts the path of its `__main__.py` here, and "-m" while it still looks for it.
        if name in ("__main__.py", "-m", "-c"):
            return join([Path(sys.executable).name, "-m", Path(program).parent.name or "MODULE", *arguments])
        start = ["python", program] if name.endswith(".py") else [name]
        return join([*start, *arguments])

    def repository_path(self, path: Path) -> str:
        """Return a path from the top of the repository; outside of it, as `display_path` does."""
        whole, top = path.resolve(), repository(self.root).resolve()
        return relative(whole, top) if whole.is_relative_to(top) else self.display_path(path)

    def display_path(self, path: Path) -> str:
        """Return a path as a user types it: relative to the current folder if it is inside the project."""
        # Resolved, since temporary folders are behind a symbolic link on macOS.
        whole, root = path.resolve(), self.root.resolve()
        return relative(whole, (self.start or root).resolve()) if whole.is_relative_to(root) else str(path)


def relative(path: Path, start: Path) -> str:
    """Return a path relative to a folder, with forward slashes; absolute on another drive."""
    try:
        return Path(os.path.relpath(path, start)).as_posix()
    except ValueError:
        return path.as_posix()


def project_root(start: Path) -> Path:
    """Return the nearest folder from here up that holds a pyproject.toml, else the start."""
    for folder in (start, *start.parents):
        if (folder / "pyproject.toml").is_file():
            return folder
    return start


def repository(start: Path) -> Path:
    """Return the nearest folder from here up that git knows, else the start."""
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)


def running_test(environment: Mapping[str, str]) -> str:
    """Return the node id of the test that pytest is running, "" if there is none."""
    # pytest writes the phase behind the id: "tests/test_a.py::test_b (call)".
    node = environment.get(_TEST_VARIABLE, "").rpartition(" (")[0]
    return _XDIST_GROUP.sub("", node)


def truthy(value: str | None) -> bool:
    """Say whether an environment variable is switched on."""
    return (value or "").strip().lower() in ("true", "1", "yes")


def file_stem(name: str, fallback: str = "gate-verdict") -> str:
    """Return a name as part of a file name; letters and folders that it lacks leave a trace, to differ."""
    # The end of a long name is kept: of a path it says most.
    stem = _UNSAFE.sub("-", name).strip(".")[-LONGEST_STEM:] or fallback
    if name.isascii() and "/" not in name:
        return stem
    return f"{stem}-{sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


def keep_out_of_git(folder: Path) -> None:
    """Write the `.gitignore` of the `.dokimos` folder that holds this folder, if there is one."""
    home = next((folder for folder in (folder, *folder.parents) if folder.name == _HOME), None)
    if home is not None and not (home / ".gitignore").exists():
        write_atomically(home / ".gitignore", "# What dokimos keeps here does not belong in git.\n*\n")


def write_atomically(path: Path, text: str) -> None:
    """Write a file in UTF-8 atomically, creating its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, since a rename across file systems is not atomic; by process, since tests run in
    # several.
    draft = path.with_name(f".{path.name[:100]}.{os.getpid()}.tmp")
    try:
        draft.write_bytes(text.encode("utf-8", "backslashreplace"))
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)

"""`export` and `render`: a result as a report, in the format that the file name or the caller names."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast, runtime_checkable

from dokimos._core import checks
from dokimos._core.results import ExperimentResult
from dokimos._runtime.start_collector import start_collector
from dokimos.errors import ConfigurationError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

BUILT_IN: Final[dict[str, str]] = {
    "json": "dokimos.exporters._json:JsonExporter",
    "html": "dokimos.exporters._html:HtmlExporter",
    "markdown": "dokimos.exporters._markdown:MarkdownExporter",
    "csv": "dokimos.exporters._csv:CsvExporter",
    "junit": "dokimos.exporters._junit:JUnitExporter",
}

ENTRY_POINTS: Final = "dokimos.exporters"
WRITE_BUFFER: Final = 2**18


@runtime_checkable
class Exporter(Protocol):
    """Renders a result as one text; plugins name theirs by the entry point `dokimos.exporters`.

    Example:
        >>> class Names:
        ...     name, extensions = "names", (".names",)
        ...     def render(self, result):
        ...         return ", ".join(str(item.example.input) for item in result.item_results)
        >>> exporter: Exporter = Names()
    """

    @property
    def name(self) -> str:
        """The name of the format."""

    @property
    def extensions(self) -> tuple[str, ...]:
        """File name endings, in lower case and with their dot."""

    def render(self, result: ExperimentResult) -> str:
        """Return the report; its line ends are written as they are."""


def render(result: ExperimentResult, format: str) -> str:
    """Return a report as text.

    Raises:
        ConfigurationError: for an unknown format.

    Example:
        >>> result = evaluate([Example.of("a", "A")], str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> render(result, "markdown").splitlines()[0]
        '# Experiment: unnamed'
    """
    return exporter(format).render(_require_result(result))


def export(result: ExperimentResult, path: str | Path, *, format: str | None = None) -> Path:
    """Write a report in UTF-8 and return its path; folders are created.

    The format follows from the file name unless it is given. A file that exists is replaced at once and
    whole, so a reader never sees half a report.

    Raises:
        ConfigurationError: for an unknown format or ending, or a path that cannot be written.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> result = evaluate([Example.of("a", "A")], str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export(result, Path(folder) / "report.html").name
        'report.html'
    """
    checks.require_path("path", path, "the file to write", or_none=False)
    path = Path(path)
    chosen = exporter_for(path) if format is None else exporter(format)
    result = _require_result(result)
    render_parts = getattr(chosen, "render_parts", None)
    return write_report(path, chosen.render(result) if render_parts is None else render_parts(result))


def write_report(path: Path, text: str | Iterable[str]) -> Path:
    """Write the text of a report, or its parts, and return its path; see `export`.

    Raises:
        ConfigurationError: for a path that cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, [text] if isinstance(text, str) else text)
    except OSError as cause:
        why = cause.strerror or cause
        raise ConfigurationError(f"Cannot write the report {path}: {why}. Choose another path.") from cause
    return path


def exporter(name: str) -> Exporter:
    """Return the exporter of a format, built in or from a plugin."""
    if name in BUILT_IN:
        return _load_built_in(name)
    # Built-in formats first, so no installed package can change what `-o report.html` means.
    for plugin in _plugins():
        if plugin.name == name:
            return _load_plugin(plugin)
    raise ConfigurationError(f"Unknown report format {name!r}. Known formats: {_list_formats()}.")


def exporter_for(path: str | Path) -> Exporter:
    """Return the exporter for a file name, by its ending."""
    file_name = Path(path).name.lower()
    for candidate in _iter_exporters():
        if file_name.endswith(candidate.extensions):
            return candidate
    raise ConfigurationError(
        f"Cannot tell the format of the report {str(path)!r} from its ending. Known formats: "
        f"{_list_formats()}. Rename the file or name a format."
    )


def _require_result(result: object) -> ExperimentResult:
    if not isinstance(result, ExperimentResult):
        raise ConfigurationError(f"Only an ExperimentResult can be exported, not {type(result).__name__}.")
    return result


def _iter_exporters() -> Iterator[Exporter]:
    yield from map(_load_built_in, BUILT_IN)
    yield from map(_load_plugin, _plugins())


@cache
def _load_built_in(name: str) -> Exporter:
    module, _, attribute = BUILT_IN[name].partition(":")
    return cast(Exporter, getattr(import_module(module), attribute)())


def _plugins() -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points

    return tuple(entry_points(group=ENTRY_POINTS))


def _load_plugin(plugin: EntryPoint) -> Exporter:
    start_collector.before_user_code()
    try:
        loaded = plugin.load()
        instance = loaded() if isinstance(loaded, type) else loaded
    except Exception as cause:
        problem = f"{type(cause).__name__}: {cause}"
        raise ConfigurationError(
            f"Cannot load the exporter {plugin.name!r} ({plugin.value}): {problem}"
        ) from cause
    if not isinstance(instance, Exporter):
        raise ConfigurationError(
            f"The exporter {plugin.name!r} ({plugin.value}) lacks one of name, extensions and render(result)."
        )
    return instance


def _list_formats() -> str:
    return ", ".join(f"{e.name} ({', '.join(e.extensions)})" for e in _iter_exporters())


def _write(path: Path, parts: Iterable[str]) -> None:
    if path.exists() and not path.is_file():
        # A pipe or a terminal cannot be replaced, so it gets a whole report or nothing; a folder gives the
        # usual error here.
        _write_parts(path, ["".join(parts)])
        return
    # A link stays a link: what it leads to is replaced.
    target = Path(os.path.realpath(path))
    # Of this thread alone: another one may write the same report at the same time.
    draft = target.with_name(f".{target.name[:100]}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        _write_parts(draft, parts)
        with contextlib.suppress(FileNotFoundError):
            # The new file would otherwise have the default rights instead of those of the one it replaces.
            draft.chmod(target.stat().st_mode)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def _write_parts(path: Path, parts: Iterable[str]) -> None:
    # Line ends are written as they are.
    # A buffer of 256 KiB in place of 8: writing a report of 256 MB took 0.14 s of CPU instead of 0.31.
    with path.open("w", WRITE_BUFFER, encoding="utf-8", errors="backslashreplace", newline="") as file:
        file.writelines(parts)

"""Resolve URIs to data sets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol, cast
from urllib.parse import unquote

from dokimos._runtime.start_collector import start_collector
from dokimos.datasets import _loaders as loaders
from dokimos.datasets._source import Source, format_or_json, sniff, standard_input, stem
from dokimos.errors import ConfigurationError, DatasetError

if TYPE_CHECKING:
    from dokimos.datasets._dataset import Dataset, DatasetStream

ENTRY_POINTS: Final = "dokimos.datasets"

# One letter before the colon is a Windows drive.
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


class DatasetResolver(Protocol):
    """Loads data sets from some kind of place.

    Example:
        >>> class Empty:
        ...     def supports(self, uri):
        ...         return uri == "empty:"
        ...     def load(self, uri, columns=None):
        ...         return Dataset()
        ...     def stream(self, uri, columns=None):
        ...         return DatasetStream(lambda: ())
        >>> resolver: DatasetResolver = Empty()
    """

    def supports(self, uri: str) -> bool:
        """Say whether this resolver is responsible for the URI; the first that says yes is asked."""
        ...

    def load(self, uri: str, columns: Mapping[str, str] | None = None) -> Dataset:
        """Load all of it. Raises `DatasetError`."""
        ...

    def stream(self, uri: str, columns: Mapping[str, str] | None = None) -> DatasetStream:
        """Open it to be read one example at a time. Raises `DatasetError`."""
        ...


class FileResolver:
    """Plain paths, `file:` URIs."""

    def supports(self, uri: str) -> bool:
        scheme = _scheme(uri)
        # A file may be called `a:b.json`.
        return scheme in (None, "file") or os.path.exists(uri)

    def load(self, uri: str, columns: Mapping[str, str] | None = None) -> Dataset:
        return loaders.load_file(path_of(uri), columns)

    def stream(self, uri: str, columns: Mapping[str, str] | None = None) -> DatasetStream:
        return loaders.stream_file(path_of(uri), columns)


class PackageResolver:
    """`package:some.pkg/data.json`: a file inside an installed Python package."""

    def supports(self, uri: str) -> bool:
        return _scheme(uri) == "package"

    def load(self, uri: str, columns: Mapping[str, str] | None = None) -> Dataset:
        return loaders.load_source(_package_source(uri), format_or_json(uri), columns)

    def stream(self, uri: str, columns: Mapping[str, str] | None = None) -> DatasetStream:
        return loaders.stream_source(_package_source(uri), format_or_json(uri), columns)


class ServerResolver:
    """`dataset://name@version`: a data set on the server that `DOKIMOS_SERVER_URL` names."""

    def supports(self, uri: str) -> bool:
        # Without a server it claims nothing, so that the error says what to set.
        return _scheme(uri) == "dataset" and bool(os.environ.get("DOKIMOS_SERVER_URL", "").strip())

    def load(self, uri: str, columns: Mapping[str, str] | None = None) -> Dataset:
        from dokimos.datasets._remote import load_remote

        return load_remote(uri, columns)

    def stream(self, uri: str, columns: Mapping[str, str] | None = None) -> DatasetStream:
        from dokimos.datasets._remote import stream_remote

        return stream_remote(uri, columns)


class StandardInputResolver:
    """`-`: JSON, JSONL, CSV or Parquet on standard input, told apart by their first line, also gzipped."""

    def supports(self, uri: str) -> bool:
        return uri == "-"

    def load(self, uri: str, columns: Mapping[str, str] | None = None) -> Dataset:
        source = standard_input()
        return loaders.load_source(source, sniff(source), columns)

    def stream(self, uri: str, columns: Mapping[str, str] | None = None) -> DatasetStream:
        source = standard_input()
        return loaders.stream_source(source, sniff(source), columns)


_BUILT_IN: Final[tuple[DatasetResolver, ...]] = (
    StandardInputResolver(), PackageResolver(), ServerResolver(), FileResolver(),
)  # fmt: skip
_registered: list[DatasetResolver] = []
_plugins: list[DatasetResolver] | None = None
_broken_plugins: list[str] = []


def register_resolver(resolver: DatasetResolver) -> None:
    """Ask this resolver before all others.

    Example:
        >>> class Numbers:
        ...     def supports(self, uri):
        ...         return uri.startswith("numbers://")
        ...     def load(self, uri, columns=None):
        ...         return Dataset([Example.of(uri.removeprefix("numbers://"))])
        ...     def stream(self, uri, columns=None):
        ...         return DatasetStream(lambda: self.load(uri))
        >>> register_resolver(Numbers())
        >>> Dataset.load("numbers://7")[0].input
        '7'
    """
    for method in ("supports", "load", "stream"):
        if not callable(getattr(resolver, method, None)):
            raise DatasetError(f"A resolver needs the method {method}; {type(resolver).__name__} has none.")
    _registered.insert(0, resolver)


def unregister_resolver(resolver: DatasetResolver) -> None:
    """Undo `register_resolver`; nothing happens if it was not registered."""
    if resolver in _registered:
        _registered.remove(resolver)


def resolver_for(uri: str | os.PathLike[str]) -> DatasetResolver:
    """Return the first resolver that supports the URI.

    Order: registered ones (the latest first), entry points of the group `dokimos.datasets`, built-in ones.

    Raises:
        DatasetError: when there is none.
    """
    # A Path may contain colons, and whoever makes one means a file.
    if isinstance(uri, os.PathLike):
        return _PathResolver()
    if not isinstance(uri, str):
        raise ConfigurationError(f"Give the path or URI of a data set, not {uri!r:.80}.")
    if not uri:
        raise DatasetError("The path of the data set is empty.")
    for resolver in (*_registered, *_entry_points(), *_BUILT_IN):
        if resolver.supports(uri):
            return resolver
    raise DatasetError(f"No resolver found for URI {uri!r}. {_advice(uri)}")


def path_of(uri: str) -> str:
    """Return the path that a `file:` URI names; anything else is a path already."""
    if _scheme(uri) != "file" or os.path.exists(uri):
        return uri
    rest = uri.partition(":")[2]
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise DatasetError(f"{uri!r} is on the host {host!r}; write file:///path for a file on this one.")
        rest = slash + rest
    path = unquote(rest)
    # file:///C:/x names C:/x, and not /C:/x.
    return path[1:] if re.match(r"/[A-Za-z]:[/\\]", path) else path


class _PathResolver(FileResolver):
    """Path objects, in which nothing is a scheme."""

    def load(self, uri: str, columns: Mapping[str, str] | None = None) -> Dataset:
        return loaders.load_file(uri, columns)

    def stream(self, uri: str, columns: Mapping[str, str] | None = None) -> DatasetStream:
        return loaders.stream_file(uri, columns)


def _scheme(uri: str) -> str | None:
    match = _SCHEME.match(uri)
    return match[1].lower() if match else None


def _advice(uri: str) -> str:
    scheme = _scheme(uri)
    if scheme == "classpath":
        return f"Use package: for files inside a Python package, as in {'package:some.pkg/' + _tail(uri)!r}."
    if scheme == "dataset":
        return "It names a data set on a server; set DOKIMOS_SERVER_URL to the address of that server."
    advice = "Known are paths, file:, package: and - (standard input); register_resolver(...) adds others."
    if _broken_plugins:
        advice += f" These plug-ins could not be loaded: {'; '.join(_broken_plugins)}."
    return advice


def _tail(uri: str) -> str:
    return uri.partition(":")[2].lstrip("/")


def _entry_points() -> list[DatasetResolver]:
    """Load the plug-ins once; a broken one must not keep others from loading their files."""
    global _plugins
    if _plugins is None:
        from importlib.metadata import entry_points

        _plugins = []
        for entry in entry_points(group=ENTRY_POINTS):
            start_collector.before_user_code()
            try:
                plugin = entry.load()
                _plugins.append(plugin() if isinstance(plugin, type) else plugin)
            except Exception as error:
                _broken_plugins.append(f"{entry.name} ({type(error).__name__}: {error})")
    return _plugins


def _package_source(uri: str) -> Source:
    package, slash, inside = uri.partition(":")[2].lstrip("/").partition("/")
    if not package or not slash or not inside:
        raise DatasetError(
            f"{uri!r} must name a package and a file in it, as in 'package:some.pkg/data.json'."
        )
    file = _package_files(package, uri).joinpath(*inside.split("/"))
    # No way out of the package: a URI may come from a configuration that somebody else wrote.
    if ".." in inside.split("/") or not file.is_file():
        raise DatasetError(f"The package {package!r} has no file {inside!r}.", path=uri)
    return Source(uri, stem(file.name), lambda: cast("BinaryIO", file.open("rb")))


def _package_files(package: str, uri: str) -> Any:
    from importlib.resources import files

    try:
        return files(package)
    except (ModuleNotFoundError, TypeError, ValueError) as error:
        raise DatasetError(f"There is no package {package!r} here ({error}).", path=uri) from error

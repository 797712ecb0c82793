"""Where a data set was loaded from."""

from __future__ import annotations

from dataclasses import dataclass

from dokimos._core.jsonable import WIRE_CONFIG


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSource:
    """Where a data set was loaded from; parts, samples and shards of it keep it.

    Example:
        >>> DatasetSource(uri="dataset://capitals@latest", name="capitals", version=3).version
        3
    """

    uri: str
    """The path or URI that was asked for, such as `dataset://capitals@latest`."""
    name: str | None = None
    """The data set's name where it is kept, None for a file."""
    version: int | None = None
    """The version that was loaded, None where there are none."""

    __pydantic_config__ = WIRE_CONFIG

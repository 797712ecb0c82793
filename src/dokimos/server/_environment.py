"""Environment variables, read with errors that name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from dokimos.errors import ConfigurationError

MAX_INTEGER: Final = 2**31 - 1
MAX_NUMBER: Final = 1_000_000
"""As days 2,700 years: times that are computed with it still fit into a column."""
_T = TypeVar("_T")
_MAPPED_SPRING_VARIABLES: Final = (
    "SPRING_DATASOURCE_URL",
    "SPRING_DATASOURCE_HIKARI_CONNECTION_TIMEOUT",
    "SPRING_DATASOURCE_HIKARI_MAXIMUM_POOL_SIZE",
    "SERVER_TOMCAT_CONNECTION_TIMEOUT",
)


class Variables:
    """Environment variables with errors that name them."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._set: set[str] = set()

    def text(self, name: str) -> str | None:
        value = self._environment.get(name, "").strip() or None
        if value is not None:
            self._set.add(name)
        return value

    def list_set(self) -> tuple[str, ...]:
        return tuple(sorted(self._set))

    def names(self, name: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in (self.text(name) or "").split(",") if part.strip())

    def integer(self, name: str, default: int, *, low: int, high: int = MAX_INTEGER) -> int:
        number = self._parse(name, int, "a whole number")
        if number is None:
            return default
        if not low <= number <= high:
            raise ConfigurationError(f"{name} must be from {low} to {high}, not {number}.", setting=name)
        return number

    def number(
        self, name: str, default: float, *, high: int = MAX_NUMBER, forever: str | None = None
    ) -> float:
        """Return a number from 0 to `high`, or -1 where that stands for what `forever` says."""
        value = self._parse(name, float, "a number")
        if value is None:
            return default
        if not 0 <= value <= high and not (forever and value == -1):
            also = f", or -1 {forever}" if forever else ""
            raise ConfigurationError(f"{name} must be from 0 to {high}{also}, not {value}.", setting=name)
        return value

    def boolean(self, name: str) -> bool:
        value = (self.text(name) or "false").lower()
        if value in ("true", "1", "yes", "on"):
            return True
        if value in ("false", "0", "no", "off"):
            return False
        raise ConfigurationError(f"{name} must be true or false, not {value!r}.", setting=name)

    def level(self, name: str, default: str) -> str:
        value = (self.text(name) or default).upper()
        # The names of other logging systems for the same levels.
        value = {"WARN": "WARNING", "TRACE": "DEBUG", "FATAL": "ERROR", "OFF": "CRITICAL"}.get(value, value)
        if value not in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"):
            raise ConfigurationError(
                f"{name} must be DEBUG, INFO, WARN or ERROR, not {value!r}.", setting=name
            )
        return value

    def list_ignored(self) -> tuple[str, ...]:
        foreign = (name for name in self._environment if name.startswith(("SPRING_", "SERVER_TOMCAT_")))
        return tuple(sorted(name for name in foreign if name not in _MAPPED_SPRING_VARIABLES))

    def _parse(self, name: str, convert: Callable[[str], _T], what: str) -> _T | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return convert(text)
        except ValueError:
            raise ConfigurationError(f"{name} must be {what}, not {text!r}.", setting=name) from None

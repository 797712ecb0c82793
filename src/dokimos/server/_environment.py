"""Environment variables, read with errors that name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from dokimos.errors import ConfigurationError

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

    def integer(self, name: str, default: int, *, low: int, high: int | None = None) -> int:
        number = self._parse(name, int, "a whole number")
        if number is None:
            return default
        if number < low or (high is not None and number > high):
            limits = f"at least {low}" if high is None else f"from {low} to {high}"
            raise ConfigurationError(f"{name} must be {limits}, not {number}.", setting=name)
        return number

    def number(self, name: str, default: float, *, forever: bool = False) -> float:
        """Return a number of 0 or more; with `forever` also -1."""
        value = self._parse(name, float, "a number")
        if value is None:
            return default
        if not 0 <= value < float("inf") and not (forever and value == -1):
            also = ", or -1 for ever" if forever else ""
            raise ConfigurationError(f"{name} must be 0 or more{also}, not {value}.", setting=name)
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

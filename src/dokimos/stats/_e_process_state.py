"""The stored form of sequential tests: values of JSON, checked when they are read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from dokimos.stats._betting import Game, Players, finite

VERSION: Final = 1
_SETTINGS: Final = tuple(field.name for field in fields(Game))
_PLAYERS: Final = ("n", "log_peak", "log_capital")
# Databases and other JSON writers may round the last digits of a float.
_ROUNDING: Final = 1e-9


def dump(kind: str, players: Players, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a test of this kind; `own` is what it has beside its players."""
    return {
        "kind": kind,
        "version": VERSION,
        **{name: getattr(players.game, name) for name in _SETTINGS},
        **own,
        "n": players.n,
        "log_peak": players.log_peak,
        # JSON has no infinity: None is the logarithm of 0.
        "log_capital": [None if log == -math.inf else log for log in players.log_capital],
    }


def members(state: object, kind: str, own: Sequence[str]) -> Mapping[str, Any]:
    """Return the members of a state once all are there and no other. Raises `ValueError`."""
    if not isinstance(state, Mapping):
        raise ValueError(f"A state is a mapping as state() returns it, not {state!r:.80}.")
    if state.get("kind") != kind:
        raise ValueError(f"The state is of kind {state.get('kind')!r:.80}, not {kind!r}.")
    if state.get("version") != VERSION:
        raise ValueError(
            f"The state has version {state.get('version')!r:.80}; this version of dokimos reads {VERSION}."
        )
    # Members that are not known are refused: a state of a later version, read in part, would give wrong
    # evidence.
    expected = {"kind", "version", *_SETTINGS, *own, *_PLAYERS}
    if missing := sorted(expected - set(state)):
        raise ValueError(f"The state is damaged: it lacks {', '.join(missing)}.")
    if unknown := sorted(str(name) for name in set(state) - expected):
        raise ValueError(f"The state is damaged: {', '.join(unknown):.80} is unknown.")
    return state


def settings(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as keyword arguments of the test, which checks them. Raises `ValueError`."""
    for name in _SETTINGS:
        if name != "alternative":
            number(state, name)
    return {name: state[name] for name in _SETTINGS}


def restore(players: Players, state: Mapping[str, Any]) -> None:
    """Give players what they had. Raises `ValueError`."""
    logs = state["log_capital"]
    if not isinstance(logs, list | tuple) or len(logs) != len(players.log_capital):
        raise ValueError(
            f"The state is damaged: log_capital must be a list of {len(players.log_capital)} numbers."
        )
    players.n = whole(state, "n")
    players.log_peak = number(state, "log_peak")
    players.log_capital = [_logarithm(log) for log in logs]
    if players.log_peak < max(0.0, players.log_mean) - _ROUNDING:
        raise ValueError("The state is damaged: log_peak is below the present evidence.")


def number(state: Mapping[str, Any], name: str) -> float:
    """Return a member that is a finite number. Raises `ValueError`."""
    if isinstance(state[name], bool):
        raise ValueError(f"The state is damaged: {name} must be a number, not {state[name]!r}.")
    try:
        return finite(name, state[name])
    except (TypeError, ValueError) as error:
        raise ValueError(f"The state is damaged: {error}") from None


def whole(state: Mapping[str, Any], name: str) -> int:
    """Return a member that is a whole number of 0 or more. Raises `ValueError`."""
    value = state[name]
    # A truth value is an int in Python; as a count it is damage.
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(
            f"The state is damaged: {name} must be a whole number of 0 or more, not {value!r:.80}."
        )
    return value


def flag(state: Mapping[str, Any], name: str) -> bool:
    """Return a member that is true or false. Raises `ValueError`."""
    value = state[name]
    if not isinstance(value, bool):
        raise ValueError(f"The state is damaged: {name} must be true or false, not {value!r:.80}.")
    return value


def _logarithm(log: object) -> float:
    return -math.inf if log is None else number({"log_capital": log}, "log_capital")

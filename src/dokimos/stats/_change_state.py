"""The stored form of a change detector: values of JSON, checked when they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from dokimos.stats._betting import SHARES, Alternative
from dokimos.stats._change_alarm import ChangeAlarm, Direction
from dokimos.stats._change_players import Bar, Side, Start
from dokimos.stats._e_process_state import number, whole
from dokimos.stats._intervals import Interval
from dokimos.stats._joining import CLOCK_MEMBERS
from dokimos.stats._paired_estimates import Estimate
from dokimos.stats._weighted_mean import NO_SUMS, WeightedSums

KIND: Final = "change-detector"
VERSION: Final = 1
_SETTINGS: Final = ("low", "high", "alternative", "largest_weight", "reference")
_OWN: Final = ("n", "sums", "sums_at_alarm", "alarm", "sides")
_SIDE: Final = ("bars", "capital", "recent", "starts", "start_of")
_ALARM_NUMBERS: Final = ("evidence", "needed", "at", "since_at", "reference")
_ALARM: Final = ("direction", "n", "since_n", "before", "after", *_ALARM_NUMBERS)


def members(state: object) -> Mapping[str, Any]:
    """Return the members of a state once all are there and no other. Raises `ValueError`."""
    if not isinstance(state, Mapping):
        raise ValueError(f"A state is a mapping as state() returns it, not {state!r:.80}.")
    if state.get("kind") != KIND:
        raise ValueError(f"The state is of kind {state.get('kind')!r:.80}, not {KIND!r}.")
    if state.get("version") != VERSION:
        raise ValueError(
            f"The state has version {state.get('version')!r:.80}; this version of dokimos reads {VERSION}."
        )
    _check(state, ("kind", "version", *_SETTINGS, *CLOCK_MEMBERS, *_OWN), "it")
    if state["alternative"] not in get_args(Alternative):
        raise ValueError(f"The state is damaged: alternative must not be {state['alternative']!r:.80}.")
    return state


def dump_side(side: Side) -> dict[str, Any]:
    """Return the players of a side. Bets that began together share a start, which is stored once."""
    starts = list(dict.fromkeys(side.starts))
    return {
        "bars": [list(bar) for bar in side.bars],
        "capital": [list(its) for its in side.capital],
        "recent": list(side.recent),
        "starts": [[start.n, start.at, *start.sums] for start in starts],
        "start_of": [starts.index(start) for start in side.starts],
    }


def load_sides(data: object, names: Sequence[Direction]) -> dict[Direction, Side]:
    """Return the players of all sides. Raises `ValueError`."""
    sides = _mapping(data, names, "sides")
    return {name: _load_side(_mapping(sides[name], _SIDE, name)) for name in names}


def load_sums(data: object) -> WeightedSums:
    """Return sums that were stored. Raises `ValueError`."""
    count, *floats = _numbers(data, len(NO_SUMS), "sums")
    w, wx, ww, wwx, wwxx = floats
    return (_count(count, "sums"), w, wx, ww, wwx, wwxx)


def load_alarm(data: object) -> ChangeAlarm:
    """Return an alarm that was stored. Raises `ValueError`."""
    alarm = _mapping(data, _ALARM, "alarm")
    if alarm["direction"] not in get_args(Direction):
        raise ValueError(f"The state is damaged: direction must not be {alarm['direction']!r:.80}.")
    return ChangeAlarm(
        direction=alarm["direction"],
        n=whole(alarm, "n"),
        since_n=whole(alarm, "since_n"),
        before=_load_estimate(alarm["before"]),
        after=_load_estimate(alarm["after"]),
        **{name: number(alarm, name) for name in _ALARM_NUMBERS},
    )


def _load_side(data: Mapping[str, Any]) -> Side:
    bars = [Bar(*_numbers(bar, 2, "bars")) for bar in _list(data["bars"], "bars")]
    if not bars or any(bar.share <= 0 or bar.factor <= 0 for bar in bars):
        raise ValueError("The state is damaged: bars must be pairs of numbers above 0.")
    capital = [_capital(its) for its in _list(data["capital"], "capital")]
    if len(capital) != len(bars):
        raise ValueError("The state is damaged: capital must be a list for each of the bars.")
    side = Side(bars)
    side.restore(capital, _capital(data["recent"]), _load_starts(data))
    return side


def _capital(data: object) -> list[float]:
    capital = _numbers(data, len(SHARES), "capital")
    if min(capital) < 0:
        raise ValueError("The state is damaged: capital must be numbers of 0 or more.")
    return capital


def _load_starts(data: Mapping[str, Any]) -> list[Start]:
    starts = [_load_start(start) for start in _list(data["starts"], "starts")]
    places = [_count(place, "start_of") for place in _numbers(data["start_of"], len(SHARES), "start_of")]
    if max(places) >= len(starts):
        raise ValueError("The state is damaged: start_of must be places in starts.")
    return [starts[place] for place in places]


def _load_start(data: object) -> Start:
    n, at, *sums = _numbers(data, 2 + len(NO_SUMS), "starts")
    return Start(_count(n, "starts"), at, load_sums(sums))


def _load_estimate(data: object) -> Estimate | None:
    if data is None:
        return None
    names = ("value", "standard_error", "low", "high")
    found = _mapping(data, names, "estimate")
    value, error, low, high = (number(found, name) for name in names)
    return Estimate(value, error, Interval(low, high))


def _mapping(data: object, names: Sequence[str], what: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ValueError(f"The state is damaged: {what} must be a mapping, not {data!r:.80}.")
    _check(data, names, what)
    return data


def _check(data: Mapping[str, Any], names: Sequence[str], what: str) -> None:
    # Members that are not known are refused: a state of a later version, read in part, would give wrong
    # evidence.
    if missing := sorted(set(names) - set(data)):
        raise ValueError(f"The state is damaged: {what} lacks {', '.join(missing)}.")
    if unknown := sorted(str(name) for name in set(data) - set(names)):
        raise ValueError(f"The state is damaged: {', '.join(unknown):.80} is unknown.")


def _list(data: object, what: str) -> Sequence[Any]:
    if not isinstance(data, list | tuple):
        raise ValueError(f"The state is damaged: {what} must be a list, not {data!r:.80}.")
    return data


def _numbers(data: object, length: int, what: str) -> list[float]:
    values = _list(data, what)
    if len(values) != length:
        raise ValueError(f"The state is damaged: {what} must be a list of {length} numbers.")
    return [number({what: value}, what) for value in values]


def _count(value: float, what: str) -> int:
    if value < 0 or value != int(value):
        raise ValueError(f"The state is damaged: {what} must have a whole number of 0 or more, not {value}.")
    return int(value)

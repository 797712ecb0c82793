"""The text of a JSON report, written part by part: that of a long run is never in memory as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from dokimos._core.jsonable import (
    MAX_DEPTH,
    JsonValue,
    compact_json,
    is_wire_type,
    jsonable,
    leaf_json,
    wire_fields,
    wire_members,
    wire_object,
)
from dokimos._core.results import ExperimentResult, RunResult
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.exporters._item_runs import ItemRuns
from dokimos.exporters._plain_items import HALF_PAIR, LEVELS_AROUND_ITEM, PlainItems, may_be_cut
from dokimos.exporters._shared_texts import LEVELS_AS_TEXT, TextSharing, may_hold

_RESULT, _RUNS, _ITEMS = "result", "runs", "itemResults"
_OUTER: Final = (-1,) * LEVELS_AROUND_ITEM
"""Stands for the containers that a part is in: `jsonable` cuts what is nested too deep in the document."""

_Path: TypeAlias = tuple[Any, ...]
_Texts: TypeAlias = tuple[str, str]
"""A part of `result` without and with what text sharing made of it."""


class DocumentWriter:
    """Writes the document of one result: what is known of it, its items, and `result` to read it back."""

    def __init__(self, result: ExperimentResult) -> None:
        self._result = result
        self._sharing = TextSharing()
        self._plain_items = PlainItems(result, self._sharing)

    def render_parts(
        self,
        about: Mapping[str, JsonValue],
        items: Iterable[ItemRuns],
        summarize: Callable[[ItemRuns, ExperimentResult], JsonValue],
        *,
        result_version: int,
    ) -> Iterator[str]:
        """Yield the document in parts; the version stands in it where texts of `result` are references.

        Args:
            about: The members before the items.
            items: The items, each with its repeats.
            summarize: What makes the tree of an item, where it is not a plain one.
            result_version: Of a `result` with references.
        """
        for number, (key, content) in enumerate(about.items()):
            yield f"{',' if number else '{'}{_encode(key)}:{self._learn(content, (key,), _OUTER[:1])}"
        yield ',"items":['
        for place, item in enumerate(items):
            path = ("items", place)
            plain = self._plain_items.summarize(item, path)
            text = self._learn_item(summarize(item, self._result), path) if plain is None else _escape(plain)
            yield f",{text}" if place else text
        yield f'],"{_RESULT}":'
        yield from self._choose_texts(self._render_result())
        yield f',"resultVersion":{result_version}}}\n' if self._sharing.count else "}\n"

    def _learn(self, content: JsonValue, path: _Path, outer: tuple[int, ...]) -> str:
        tree = jsonable(content, outer)
        if may_hold(tree):
            self._sharing.learn(tree, path)
        return _encode(tree)

    def _learn_item(self, tree: JsonValue, path: _Path) -> str:
        """Write a tree of plain values, of which `jsonable` would change only some numbers and texts."""
        try:
            text = compact_json(tree)
        except ValueError:  # a number that JSON does not have
            return self._learn(tree, path, _OUTER[:2])
        if HALF_PAIR in text:
            return self._learn(tree, path, _OUTER[:2])
        self._sharing.learn(tree, path)
        return _escape(text)

    def _choose_texts(self, parts: Iterable[_Texts]) -> Iterator[str]:
        """Yield the parts with references if there are any at all, else without."""
        undecided: list[_Texts] = []
        for texts in parts:
            undecided.append(texts)
            # Until there is a reference, only an object that looks like one makes a difference.
            if self._sharing.count or not self._sharing.has_wrapped:
                yield from (shared for _, shared in undecided)
                undecided.clear()
        yield from (plain for plain, _ in undecided)

    def _render_result(self) -> Iterator[_Texts]:
        result = self._result
        members = wire_object(replace(result, runs=()), _OUTER[:2])
        separator = "{"
        for _, name, _ in wire_fields(ExperimentResult):
            if name == _RUNS and result.runs:
                yield _both(f'{separator}"{_RUNS}":')
                for place, run in enumerate(result.runs):
                    yield _both("," if place else "[")
                    yield from self._render_run(run, (_RESULT, _RUNS, place))
                yield _both("]")
            elif name in members:
                yield _both(f"{separator}{_encode(name)}:")
                yield self._share_tree(members[name], (_RESULT, name))
            else:
                continue
            separator = ","
        yield _both("{}" if separator == "{" else "}")

    def _render_run(self, run: RunResult, path: _Path) -> Iterator[_Texts]:
        members = wire_object(replace(run, item_results=()), _OUTER[:4])
        separator = "{"
        for _, name, _ in wire_fields(RunResult):
            if name == _ITEMS and run.item_results:
                yield _both(f'{separator}"{_ITEMS}":')
                for place, item in enumerate(run.item_results):
                    yield _both("," if place else "[")
                    plain = self._plain_items.write(item)
                    if plain is None:
                        yield self._share(item, (*path, _ITEMS, place), _OUTER)
                    else:
                        yield _both(_escape(plain))
                yield _both("]")
            elif name in members:
                yield _both(f"{separator}{_encode(name)}:")
                yield self._share_tree(members[name], (*path, name))
            else:
                continue
            separator = ","
        yield _both("}")

    def _share(self, value: Any, path: _Path, outer: tuple[int, ...], levels: int = 0) -> _Texts:
        """Write a value as it is where nothing of it is a reference, else look into its parts."""
        text = leaf_json(value)
        if may_be_cut(text, MAX_DEPTH - len(outer)):
            return self._share_tree(jsonable(value, outer), path, levels)
        if not self._sharing.may_change(text):
            return _both(_escape(text))
        inner = (*outer, id(value))
        if is_wire_type(type(value)):
            members = [
                (f"{_encode(name)}:", self._share(content, (*path, name), inner, LEVELS_AS_TEXT.get(name, 0)))
                for name, content in wire_members(value)
            ]
            return _join("{", members, "}")
        if type(value) is tuple:
            places = enumerate(value)
            return _join("[", [("", self._share(each, (*path, place), inner)) for place, each in places], "]")
        return self._share_tree(jsonable(value, outer), path, levels)

    def _share_tree(self, tree: JsonValue, path: _Path, levels: int = 0) -> _Texts:
        shared = self._sharing.tree(tree, path, levels) if may_hold(tree) else tree
        text = _encode(shared)
        is_undecided = self._sharing.has_wrapped and not self._sharing.count
        return _encode(tree) if is_undecided else text, text


def _join(opening: str, parts: Iterable[tuple[str, _Texts]], closing: str) -> _Texts:
    plain = ",".join([name + texts[0] for name, texts in parts])
    shared = ",".join([name + texts[1] for name, texts in parts])
    return f"{opening}{plain}{closing}", f"{opening}{shared}{closing}"


def _both(text: str) -> _Texts:
    return text, text


def _encode(tree: JsonValue) -> str:
    return _escape(compact_json(tree))


def _escape(json_text: str) -> str:
    """Return JSON text with escapes for what acts on a terminal, which are those of JSON."""
    # The encoder has escaped all that ASCII has of it but this one, and to ask is 20 times faster.
    is_plain = json_text.isascii() and "\x7f" not in json_text
    return json_text if is_plain else escape_control_characters(json_text)

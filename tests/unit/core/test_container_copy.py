from __future__ import annotations

import datetime
import time
from collections import Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos import AgentTrace, ConversationTrajectory, EvalTestCase, Example, Message, Score, ToolCall
from dokimos._core.container_copy import _flat_copier_of, copy_containers, copy_repeatedly


class Pair(NamedTuple):
    left: Any
    right: Any


class AttributeDict(dict[str, Any]):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.__dict__ = self


class FrozenDict(dict[str, Any]):
    def __setitem__(self, key: str, value: Any) -> None:
        raise TypeError("frozen")


class Labelled(dict[str, Any]):
    def __init__(self, label: str) -> None:
        super().__init__()
        self.labels = [label]


class Slotted(list[Any]):
    __slots__ = ("notes",)
    notes: list[str]


class Store(Mapping[str, Any]):
    """A mapping that keeps its content wherever it likes."""

    def __init__(self, **content: Any) -> None:
        self._content = content

    def __getitem__(self, key: str) -> Any:
        return self._content[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)


@dataclass
class Client:
    calls: list[str] = field(default_factory=list)


def special(kind: type[dict[Any, Any]], *args: Any) -> dict[Any, Any]:
    made = kind(*args)
    made["a"] = [1]
    return made


MAKERS: dict[str, Any] = {
    "dict": lambda inner: {"a": inner},
    "list": lambda inner: [inner],
    "tuple": lambda inner: (1, inner),
    "named tuple": lambda inner: Pair(1, inner),
    "deque": lambda inner: deque([inner], maxlen=3),
    "defaultdict": lambda inner: defaultdict(list, a=inner),
    "OrderedDict": lambda inner: OrderedDict(a=inner),
    "Counter": lambda inner: Counter(a=inner),
    "subclass of dict": lambda inner: AttributeDict(a=inner),
    "dict that refuses changes": lambda inner: FrozenDict(a=inner),
    "UserDict": lambda inner: UserDict(a=inner),
    "UserList": lambda inner: UserList([inner]),
    "MappingProxyType": lambda inner: MappingProxyType({"a": inner}),
    "Mapping of one's own": lambda inner: Store(a=inner),
    "subclass of list": lambda inner: Slotted([inner]),
    "ToolCall": lambda inner: ToolCall("look_up", {"keys": inner}),
    "Message": lambda inner: Message.user("Hello", about=inner),
    "AgentTrace": lambda inner: AgentTrace((ToolCall("look_up", {"keys": inner}),), "done"),
    "ConversationTrajectory": lambda inner: ConversationTrajectory(
        (Message.assistant("Hi", [ToolCall("x", {"y": inner})]),)
    ),
    "Example": lambda inner: Example({"input": inner}),
    "EvalTestCase": lambda inner: EvalTestCase({"input": "x"}, {"output": inner}, metadata={"a": inner}),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_change_deep_inside_the_original_does_not_reach_the_copy(kind: str) -> None:
    inner = {"members": ["first"], "seen": {1}}
    copied = copy_containers(MAKERS[kind](inner))
    inner["members"].append("second")  # type: ignore[attr-defined]
    inner["seen"].add(2)  # type: ignore[attr-defined]
    inner["more"] = []
    untouched = MAKERS[kind]({"members": ["first"], "seen": {1}})
    assert type(copied) is type(untouched)
    if isinstance(copied, UserDict | UserList | Store):
        assert list(copied) == list(untouched)
        assert getattr(copied, "data", getattr(copied, "_content", None)) == getattr(
            untouched, "data", getattr(untouched, "_content", None)
        )
    else:
        assert copied == untouched


@pytest.mark.parametrize(
    "value",
    [
        special(OrderedDict),
        special(defaultdict, list),
        {"a": 1},
        [1],
        {1, 2},
        deque([1]),
        UserDict(a=1),
        bytearray(b"x"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_change_of_the_original_itself_does_not_reach_the_copy(value: Any) -> None:
    copied = copy_containers([value])[0]
    before = list(copied)
    value.clear()
    assert list(copied) == before != []


def test_kinds_keep_what_makes_them_special() -> None:
    grouped = copy_containers(defaultdict(list, a=[1]))
    grouped["b"].append(2)
    assert grouped == {"a": [1], "b": [2]}
    ordered = OrderedDict(a=[1], b=[2])
    ordered.move_to_end("a")
    assert list(copy_containers(ordered)) == ["b", "a"]
    assert copy_containers(deque([[1], [2]], maxlen=2)).maxlen == 2
    assert copy_containers(Counter("aab")).most_common(1) == [("a", 2)]
    attributes = copy_containers(AttributeDict(a=[1]))
    assert attributes.a is attributes["a"]  # type: ignore[attr-defined]


def test_attributes_of_a_subclass_come_along() -> None:
    labelled, slotted = Labelled("x"), Slotted([1])
    slotted.notes = ["kept"]
    copied, copied_list = copy_containers(labelled), copy_containers(slotted)
    labelled.labels.append("y")
    slotted.notes.append("later")
    assert (copied.labels, copied_list.notes) == (["x"], ["kept"])


def test_a_value_that_contains_itself_is_copied_with_its_cycle() -> None:
    loop: dict[str, Any] = {"items": []}
    loop["items"].append((loop, 1))
    proxy_loop: dict[str, Any] = {}
    proxy_loop["self"] = MappingProxyType(proxy_loop)
    copied, copied_proxy = copy_containers(loop), copy_containers(proxy_loop)
    assert copied["items"][0][0] is copied is not loop
    assert copied_proxy["self"]["self"]["self"] == copied_proxy["self"]


def test_a_tuple_that_contains_itself_through_a_list_is_copied_once() -> None:
    inner: list[Any] = []
    loop = (inner,)
    inner.append(loop)
    copied = copy_containers(loop)
    assert copied[0][0] is copied is not loop


def test_what_occurs_twice_stays_one_object() -> None:
    shared = [1]
    copied = copy_containers({"a": shared, "b": shared})
    assert copied["a"] is copied["b"] is not shared


@pytest.mark.parametrize("content", [{}, {"input": "a"}])
def test_a_map_that_a_case_has_twice_stays_one_object(content: dict[str, Any]) -> None:
    copied = copy_containers(EvalTestCase(content, content))
    assert copied.inputs is copied.actual_outputs
    assert copied.inputs is not content


def test_a_case_of_plain_values_gets_maps_of_its_own() -> None:
    case = EvalTestCase({"input": "a"}, {"output": 1.5}, metadata={"page": None}, id="one", run_index=2)
    copied = copy_containers(case)
    assert copied == case
    assert type(copied) is EvalTestCase
    for name in ("inputs", "actual_outputs", "expected_outputs", "metadata"):
        assert getattr(copied, name) is not getattr(case, name)


def test_an_object_with_an_empty_slot_is_copied_as_it_is() -> None:
    case = EvalTestCase({"input": "a"})
    object.__delattr__(case, "id")
    copied = copy_containers(case)
    assert copied.inputs == case.inputs
    assert not hasattr(copied, "id")


def test_other_objects_stay_the_same_objects() -> None:
    client, now = Client(), datetime.timedelta(1)
    copied = copy_containers({"client": client, "now": now, "types": [Client, len], "time": time.gmtime(0)})
    assert copied["client"] is client
    assert copied["now"] is now
    assert copied["types"] == [Client, len]
    assert copied["time"] == time.gmtime(0)


def test_values_that_nobody_can_change_are_not_copied() -> None:
    for value in ("text", 1, None, (1, ("a", 2)), frozenset({1}), b"x", Pair(1, "b")):
        assert copy_containers(value) is value


def test_nesting_without_end_is_no_recursion_without_end() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    copied = copy_containers(deep)
    assert copied is not deep
    while deep:  # taken apart from outside, since to free it at once is a recursion too
        deep = deep.pop()


@pytest.mark.parametrize("arguments", ['{"a": [1]}', '{"a": 1}', "{}"])
def test_the_text_that_arguments_were_read_from_comes_along(arguments: str) -> None:
    call = ToolCall.of_text("x", arguments)
    copied = copy_containers(call)
    assert copied == call
    assert copied.has_same_arguments_text(call)
    assert copied.arguments is not call.arguments


def test_fields_may_be_called_as_the_variables_of_the_copier() -> None:
    score = Score(0.5, "why", metadata={"a": 1}, label="b")
    copy_flat = _flat_copier_of(Score)
    assert copy_flat is not None
    copied = copy_flat(score)
    assert copied == score
    assert copied.metadata is not score.metadata


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
trees = st.recursive(
    plain,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(trees)
def test_a_copy_equals_its_original_and_shares_no_list_or_dict_with_it(tree: Any) -> None:
    copied = copy_containers(tree)
    assert repr(copied) == repr(tree)
    assert not set(_mutable(copied)) & set(_mutable(tree))


def _mutable(tree: Any) -> Iterator[int]:
    if isinstance(tree, list | dict):
        yield id(tree)
    if isinstance(tree, list | dict | tuple):
        for inner in tree.values() if isinstance(tree, dict) else tree:
            yield from _mutable(inner)


@pytest.mark.parametrize("value", [Example(), EvalTestCase(), Example({"a": "b"}, actual_outputs={})])
def test_empty_maps_of_a_copy_are_its_own(value: Any) -> None:
    copied = copy_containers(value)
    assert copied == value
    for name in ("inputs", "expected_outputs", "metadata", "actual_outputs"):
        original = getattr(value, name)
        assert original is None or getattr(copied, name) is not original


CONTENTS = st.dictionaries(
    st.text(max_size=3),
    st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    max_size=3,
)


@given(
    st.builds(EvalTestCase, CONTENTS, CONTENTS, metadata=CONTENTS, id=st.none() | st.text(max_size=3))
    | st.builds(Example, CONTENTS, CONTENTS, actual_outputs=st.none() | CONTENTS)
    | CONTENTS
)
def test_each_of_several_copies_is_one_of_its_own(value: Any) -> None:
    copy = copy_repeatedly(value)
    copies = [copy(), copy()]
    assert copies == [value, value]
    assert [type(one) for one in copies] == [type(value)] * 2
    containers = [id(part) for one in (value, *copies) for part in _containers(one)]
    assert len(containers) == len(set(containers))


def _containers(value: Any) -> list[Any]:
    """Return what can be changed in a value: its maps, and the lists in them."""
    maps = [value] if isinstance(value, dict) else [getattr(value, name) for name in value.__slots__]
    maps = [content for content in maps if isinstance(content, dict)]
    return maps + [content for one in maps for content in one.values() if isinstance(content, list)]


def test_a_copy_that_is_changed_leaves_the_later_ones_as_they_are() -> None:
    copy = copy_repeatedly(EvalTestCase.of("question", "answer"))
    copy().actual_outputs["output"] = "changed"
    assert copy().actual_output == "answer"


def test_a_map_that_a_case_has_twice_stays_one_object_in_each_copy() -> None:
    content = {"input": "a"}
    one = copy_repeatedly(EvalTestCase(content, content))()
    assert one.inputs is one.actual_outputs is not content

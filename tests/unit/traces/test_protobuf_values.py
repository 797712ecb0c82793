"""Attributes parsed from bytes, which must be what protobuf's own classes say."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from dokimos.traces import _protobuf_values
from dokimos.traces._protobuf_values import parse_attributes, parse_value
from dokimos.traces._span import MAX_DEPTH

PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.binary(max_size=200),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=150)
VALUES = st.recursive(PLAIN, lambda below: st.lists(below) | st.dictionaries(KEYS, below), max_leaves=8)


def any_value(value):
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
        case bytes():
            return AnyValue(bytes_value=value)
        case list():
            return AnyValue(array_value=ArrayValue(values=map(any_value, value)))
        case dict():
            return AnyValue(kvlist_value=KeyValueList(values=pairs(value)))
    return AnyValue()


def pairs(attributes):
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


def encode(attributes):
    return [pair.SerializeToString() for pair in pairs(attributes)]


@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_values_of_every_type_and_size_are_read(attributes):
    for _ in range(2):  # the second time, short pairs are known
        assert repr(parse_attributes(encode(attributes))) == repr(attributes)


@given(st.binary(max_size=24))
def test_whatever_the_bytes_are_they_say_what_protobuf_reads_in_them(data):
    assert_protobuf_reads_the_same(data)


def assert_protobuf_reads_the_same(data):
    """Check how a pair is read, unless it has other messages in it, which may come in parts."""
    try:
        message = KeyValue.FromString(data)
    except DecodeError:
        with pytest.raises(DecodeError):
            parse_attributes([data])
        return
    kind = message.value.WhichOneof("value")
    if kind not in ("array_value", "kvlist_value"):
        expected = None if kind is None else getattr(message.value, kind)
        assert repr(parse_attributes([data])) == repr({message.key: expected})


@pytest.mark.parametrize(
    "value", ["", "text", "\u00e9", 0, 127, 128, 16_383, 16_384, -1, 0.25, True, b"ab", None]
)
def test_a_short_pair_with_any_other_byte_says_what_protobuf_reads_in_it(value):
    (pair,) = encode({"k": value})
    for place in range(len(pair)):
        assert_protobuf_reads_the_same(pair[:place] + pair[place + 1 :])
        for other in range(256):
            assert_protobuf_reads_the_same(pair[:place] + bytes([other]) + pair[place + 1 :])


@pytest.mark.parametrize(
    "size", [0, 1, 125, 126, 127, 128, 129, 16_381, 16_382, 16_383, 16_384, 16_385, 2_100_000]
)
def test_texts_of_every_length_are_read(size):
    assert parse_attributes(encode({"k": "x" * size})) == {"k": "x" * size}
    assert parse_attributes(encode({"k": {"y" * (size % 2000): ["x" * size]}})) == {
        "k": {"y" * (size % 2000): ["x" * size]}
    }


def test_a_field_that_comes_twice_counts_as_protobuf_says():
    first, second = (AnyValue(string_value=text).SerializeToString() for text in ("a", "b"))
    assert parse_value(first + second) == "b"
    pair = KeyValue(key="k", value=AnyValue(int_value=1)).SerializeToString()
    assert parse_attributes([pair + KeyValue(key="other").SerializeToString()]) == {"other": 1}


def test_what_is_nested_too_deeply_is_left_out():
    value = AnyValue(string_value="deep").SerializeToString()
    for _ in range(10 * MAX_DEPTH):
        size = len(value)
        content = b"\n" + _varint(size) + value
        value = b"\x2a" + _varint(len(content)) + content
    tree, depth = parse_value(value), 0
    while tree:
        (tree,), depth = tree, depth + 1
    assert depth == MAX_DEPTH


def _varint(number):
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def test_texts_that_are_not_unicode_are_damage():
    for data in (b"\n\x01k\x12\x03\n\x01\xff", b"\n\x01\xff\x12\x03\n\x01a"):
        with pytest.raises(DecodeError):
            parse_attributes([data])


def test_only_so_many_short_pairs_are_kept(monkeypatch):
    monkeypatch.setattr(_protobuf_values, "_MAX_KNOWN", 10)
    attributes = {str(number): number for number in range(50)}
    assert parse_attributes(encode(attributes)) == attributes
    assert len(_protobuf_values._known) <= 10
    long = encode({"k": "x" * 1000})
    assert parse_attributes(long) == {"k": "x" * 1000}
    assert long[0] not in _protobuf_values._known


def test_only_so_many_keys_are_kept(monkeypatch):
    monkeypatch.setattr(_protobuf_values, "_MAX_KNOWN", 10)
    attributes = {f"key {number}": "x" * (number + 60) for number in range(50)}
    assert parse_attributes(encode(attributes)) == parse_attributes(encode(attributes)) == attributes
    assert len(_protobuf_values._names) <= 10

"""What is worked out once for spans with the same attributes."""

from dokimos.traces._attribute_plan import AttributePlan
from dokimos.traces._semconv import TOKENS_IN


def test_spans_with_the_same_keys_share_a_plan():
    first, second = ({"gen_ai.usage.input_tokens": count, "other": "x"} for count in (1, 2))
    assert AttributePlan.of(first) is AttributePlan.of(second)
    assert AttributePlan.of(first)[TOKENS_IN] == ("gen_ai.usage.input_tokens",)


def test_spans_with_many_or_long_keys_share_none():
    for attributes in (dict.fromkeys(map(str, range(300))), {"x" * 20_000: 1}):
        assert AttributePlan.of(attributes) is not AttributePlan.of(attributes)
        assert AttributePlan.of(attributes)[TOKENS_IN] == ()

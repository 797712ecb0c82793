"""A price table to copy: US dollars per million tokens, as of a day.

Prices change: look yours up and set the date.

python examples/prices.py
"""

from __future__ import annotations

from dokimos import CallMetrics
from dokimos.judges import Prices, Rate

PRICES = Prices(
    {
        # The figures show the form; they are no provider's promise.
        "gpt-5": Rate(1.25, 10.00, cached_in=0.125),
        "gpt-5-mini": Rate(0.25, 2.00, cached_in=0.025),
        "gpt-5-nano": Rate(0.05, 0.40, cached_in=0.005),
        "claude-sonnet-4-5": Rate(3.00, 15.00, cached_in=0.30),
        "claude-haiku-4-5": Rate(1.00, 5.00, cached_in=0.10),
        "my-own-server": Rate(0.0, 0.0),
    },
    as_of="2025-11-01",
)


if __name__ == "__main__":
    call = CallMetrics(12_000, 800, model="gpt-5-mini-2025-08-07", cached_tokens_in=10_000)
    print(f"as of {PRICES.as_of}: ${PRICES.cost(call):.6f} for {call.tokens_in} + {call.tokens_out} tokens")
    print(f"a model that is not in the table: {PRICES('another-model', 12_000, 800)}")

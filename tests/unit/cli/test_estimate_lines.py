"""What an estimate says."""

from __future__ import annotations

from dokimos._cli.estimate import estimate_lines
from dokimos.experiment._estimate import Estimate


def test_an_estimate_of_items_that_all_errored_says_that_there_is_none_and_why() -> None:
    estimate = Estimate(
        items=40, seen=0, source="run x", calls=0, tokens=None, cost_usd=None, seconds=None, errored=3
    )

    text = "\n".join(estimate_lines(estimate, is_sample=True))

    assert "Nothing could be estimated for 40 items: all of the 3 items tried for it errored." in text
    assert "about 0" not in text

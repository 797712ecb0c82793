"""A gate's verdict on the terminal: the verdict, the metrics, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from dokimos.comparison._console import metrics_table
from dokimos.gate._verdict import ACCEPT, GateStatus, GateVerdict
from dokimos.reporting._blocks import Block, Detail, Line, View

_STYLES: Final[Mapping[GateStatus, str]] = {
    GateStatus.PASS: "blue",
    GateStatus.FAIL: "dark_orange",
    GateStatus.INCONCLUSIVE: "yellow",
}


def verdict_blocks(verdict: GateVerdict, detail: Detail) -> Iterator[Block]:
    """Yield what a verdict shows."""
    yield Line(verdict.headline, f"bold {_STYLES.get(verdict.status, '')}".strip(), fit="wrap")
    if verdict.note:
        yield Line(verdict.note, fit="wrap")
    if verdict.comparison is not None:
        yield Line()
        yield metrics_table(verdict.comparison)
        yield Line()
    if detail != "summary":
        for sentence in verdict.details:  # a command is in the last one
            yield Line(sentence, fit="keep" if sentence.startswith(ACCEPT) else "wrap")


VIEW: Final = View.of_blocks(lambda verdict: verdict.headline, verdict_blocks)

"""Look for duplicates of generated cases among many known ones; compare with reading the texts' words alone.

    python benchmarks/case_duplicates.py [--rows 100000]

Prints the CPU time for remembering the known texts and for looking up new ones, each beside its yardstick in
the same process: `re.findall` of the words of the same texts, in small letters. Then the same with ten times
fewer known texts: where the time for a text does not depend on how many there are, the ratios stay as they
are.
"""

from __future__ import annotations

import argparse
import random
import re
import resource
import sys
import time
from collections.abc import Callable

from dokimos.generation._duplicates import KnownTexts

LOOKUPS = 2_000
_WORD = re.compile(r"\w+")
_STARTS = (
    "How long can I",
    "What does it cost to",
    "When do I have to",
    "Is it possible to",
    "Who helps me to",
)
_VERBS = [
    "return",
    "exchange",
    "cancel",
    "insure",
    "repair",
    "unpack",
    "send",
    "keep",
    "order",
    "test",
    "paint",
    "measure",
    "store",
    "sell",
    "lend",
]
_THINGS = [
    "jackets",
    "batteries",
    "parcels",
    "invoices",
    "chairs",
    "lamps",
    "tickets",
    "cameras",
    "bicycles",
    "tents",
    "books",
    "shoes",
]
_ENDS = ("with a receipt", "without a receipt", "after delivery", "before delivery", "abroad", "at the shop")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    for count in (max(1, rows // 10), rows):
        print_costs(make_texts(count + LOOKUPS))


def make_texts(count: int) -> list[str]:
    """Return questions about few things, which share most of their words, as those of one application do."""
    draw = random.Random(0)

    def question() -> str:
        parts = (draw.choice(_STARTS), draw.choice(_VERBS), draw.choice(_THINGS), draw.choice(_ENDS))
        return f"{' '.join(parts)} in case {draw.randrange(10 * count)}, {draw.choice(_VERBS)} included?"

    return [question() for _ in range(count)]


def print_costs(texts: list[str]) -> None:
    known, new = texts[:-LOOKUPS], texts[-LOOKUPS:]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    index = KnownTexts()
    remembering = measure(lambda: add_all(index, known))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    looking = measure(lambda: [(index.find_same(text), index.find_similar(text)) for text in new])
    print_row(f"remember {len(known):,} texts", len(known), remembering, measure(lambda: read_all(known)))
    print_row(f"look up among {len(known):,}", len(new), looking, measure(lambda: read_all(new)))
    print(f"  peak memory grew by {grown:,.0f} MB")


def add_all(index: KnownTexts, texts: list[str]) -> None:
    for text in texts:
        index.add(text)


def read_all(texts: list[str]) -> list[list[str]]:
    return [_WORD.findall(text.lower()) for text in texts]


def measure(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def print_row(name: str, count: int, seconds: float, yardstick: float) -> None:
    each, ratio = seconds / count * 1e6, seconds / yardstick
    sys.stdout.write(f"{name:<28} {seconds:7.2f} s  {each:7.1f} µs each  {ratio:6.1f} x reading the words\n")


if __name__ == "__main__":
    main()

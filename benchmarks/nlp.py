"""Text metrics: token F1 in milliseconds a pair, and ROUGE-L against the package rouge-score in the same run.

Run with `python benchmarks/nlp.py`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from statistics import median

from rouge_score.rouge_scorer import RougeScorer

from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._nlp.bleu import Bleu, Chrf
from dokimos.evaluators._nlp.rouge import Rouge
from dokimos.evaluators._nlp.token_f1 import TokenF1
from dokimos.evaluators._nlp.wer import WordErrorRate

F1_BUDGET_MS = 0.04
ROUGE_TARGET = 5
ROUNDS = 25
TEXT = (
    "the refund policy covers orders that arrive damaged or late and a customer may return an item within "
    "thirty days of delivery, in its original condition, with the receipt; shipping costs are not refunded"
)


def cases(count: int, length: int) -> list[EvalTestCase]:
    """Make pairs of about `length` words, of which the output keeps about four in five."""
    rng, words, pairs = random.Random(7), TEXT.split(), []
    for _ in range(count):
        expected = rng.choices(words, k=length + rng.randrange(-5, 6))
        output = [word if rng.random() < 0.8 else rng.choice(words) for word in expected]
        pairs.append(EvalTestCase.of("", " ".join(output), " ".join(expected)))
    return pairs


def cpu_ms(work: Callable[[EvalTestCase], object], pairs: list[EvalTestCase]) -> float:
    """Return the CPU time of one pair, the best of some rounds, in milliseconds."""
    return min(_round(work, pairs) for _ in range(ROUNDS))


def _round(work: Callable[[EvalTestCase], object], pairs: list[EvalTestCase]) -> float:
    start = time.process_time()
    for case in pairs:
        work(case)
    return (time.process_time() - start) / len(pairs) * 1000


def main() -> None:
    pairs = cases(400, 50)
    f1 = cpu_ms(TokenF1().evaluate, pairs)
    share = f1 / F1_BUDGET_MS
    print(f"token F1       {f1:.4f} ms a pair of 50 words, x{share:.2f} of the budget ({F1_BUDGET_MS})")
    for length in (10, 25, 50, 200):
        print_rouge(cases(2000 // length, length), length)
    others: list[Evaluator] = [
        Rouge(variant="rouge1"), Rouge(variant="rouge2"), WordErrorRate(), Bleu(), Chrf(),
    ]  # fmt: skip
    for evaluator in others:
        print(f"{evaluator.name:14} {cpu_ms(evaluator.evaluate, pairs[:100]):.4f} ms a pair of 50 words")


def print_rouge(pairs: list[EvalTestCase], length: int) -> None:
    """Compare in turns, since the speed of a busy machine changes from second to second."""
    scorer, evaluator = RougeScorer(["rougeL"]), Rouge()

    def theirs(case: EvalTestCase) -> float:
        return float(scorer.score(case.expected_output, case.actual_output)["rougeL"].fmeasure)

    for case in pairs:
        assert abs((evaluator.evaluate(case).score or 0.0) - theirs(case)) < 1e-9
    rounds = [
        [_round(work, pairs) for work in (theirs, evaluator.score, evaluator.evaluate)] for _ in range(ROUNDS)
    ]
    best = [min(column) for column in zip(*rounds, strict=True)]
    score, evaluate = (median(row[0] / row[at] for row in rounds) for at in (1, 2))
    print(f"ROUGE-L        {best[2]:.4f} ms a pair of {length} words, rouge-score {best[0]:.4f}   "
          f"x{evaluate:.1f} faster at equal scores (x{score:.1f} without the checks around it; "
          f"target {ROUGE_TARGET})")  # fmt: skip


if __name__ == "__main__":
    main()

"""BLEU and chrF: n-grams of words and of characters that the output shares with the expected text."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar, Literal, get_args

from dokimos._core.extras import require
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import pluralize
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._nlp.word_sequences import nonblank_reference_texts
from dokimos.evaluators._setting_checks import check_option, check_whole

BleuTokenizer = Literal["13a", "intl", "char", "zh", "none"]


@dataclass(frozen=True, kw_only=True)
class Bleu(Evaluator):
    """Sentence BLEU of the package sacrebleu, divided by 100: exponential smoothing, effective order.

    Where the expected output is a list of strings, they are the references of one BLEU: an n-gram may be
    found in any of them, and the closest length counts. Needs the extra `nlp`.

    Example:
        >>> case = EvalTestCase.of("Translate.", "The cat sat on the mat.", "The cat sat on the mat.")
        >>> Bleu().evaluate(case).score
        1.0
    """

    method_source = 'Papineni et al., "BLEU" (2002), as computed by sacrebleu: Post (2018).'
    default_name = "BLEU"
    requires: ClassVar[tuple[str, ...]] = ("actual_output", "expected_output")
    extra: ClassVar[str | None] = "nlp"

    lowercase: bool = False
    """Ignore upper and lower case."""
    tokenize: BleuTokenizer = "13a"
    """How sacrebleu finds words: "char" and "zh" suit text without spaces, "none" splits at white space."""

    def __post_init__(self) -> None:
        check_option(self, "tokenize", self.tokenize, get_args(BleuTokenizer))
        require("sacrebleu", extra="nlp")
        super().__post_init__()

    def score(self, case: EvalTestCase) -> Score:
        references = nonblank_reference_texts(case)
        output = case.actual_output or ""
        if not output.strip():
            return Score(0.0, "The output is empty.")
        bleu = _bleu(self.lowercase, self.tokenize).sentence_score(output, references)
        lengths = f"{pluralize(bleu.sys_len, 'word')} against {bleu.ref_len}"
        precisions = " / ".join(f"{precision:.0f}" for precision in bleu.precisions)
        return Score(
            _share(bleu.score),
            f"Of the output's n-grams of 1 to 4 words, {precisions} % are expected; "
            f"its {lengths} give a brevity penalty of {bleu.bp:.2f}.",
        )


@dataclass(frozen=True, kw_only=True)
class Chrf(Evaluator):
    """Sentence chrF of the package sacrebleu, divided by 100: F2 of n-grams of 1 to 6 characters.

    Where the expected output is a list of strings, the best score over them counts. Needs the extra `nlp`.

    Example:
        >>> Chrf().evaluate(EvalTestCase.of("Translate.", "Good morning", "Good morning")).score
        1.0
    """

    method_source = 'Popović, "chrF" (2015), as computed by sacrebleu: Post (2018).'
    default_name = "chrF"
    requires: ClassVar[tuple[str, ...]] = ("actual_output", "expected_output")
    extra: ClassVar[str | None] = "nlp"

    word_order: int = 0
    """Longest n-grams of words that count too; 2 makes it chrF++."""

    def __post_init__(self) -> None:
        check_whole(self, "word_order", self.word_order, least=0)
        require("sacrebleu", extra="nlp")
        super().__post_init__()

    def score(self, case: EvalTestCase) -> Score:
        references = nonblank_reference_texts(case)
        output = case.actual_output or ""
        if not output.strip():
            return Score(0.0, "The output is empty.")
        value = _share(_chrf(self.word_order).sentence_score(output, references).score)
        return Score(value, f"The F2 of character n-grams against the expected text is {value:.3f}.")


def _share(percent: float) -> float:
    # sacrebleu's arithmetic ends at 100.00000000000004 for equal texts.
    return min(1.0, float(percent) / 100)


@lru_cache(maxsize=16)
def _bleu(lowercase: bool, tokenize: str) -> Any:
    sacrebleu = require("sacrebleu", extra="nlp")
    metric = sacrebleu.BLEU(lowercase=lowercase, tokenize=tokenize, smooth_method="exp", effective_order=True)
    metric.tokenizer = _forgetful(metric.tokenizer)
    return metric


@lru_cache(maxsize=16)
def _chrf(word_order: int) -> Any:
    return require("sacrebleu", extra="nlp").CHRF(word_order=word_order)


def _forgetful(tokenizer: Any) -> Callable[[str], str]:
    """Take away the caches of a sacrebleu tokenizer, which would keep the last 65,536 texts of a long run."""
    inner = getattr(tokenizer, "_post_tokenizer", None)
    if inner is not None:
        tokenizer._post_tokenizer = _forgetful(inner)
    return partial(inspect.unwrap(type(tokenizer).__call__), tokenizer)

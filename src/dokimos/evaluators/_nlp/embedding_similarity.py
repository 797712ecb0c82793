"""Embedding similarity: how near the meaning of the output is to that of the expected answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, cast

from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError, UnusableOutputError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._nlp.word_sequences import nonblank_reference_texts
from dokimos.evaluators._setting_names import EXAMPLE
from dokimos.judges._embeddings import Embedder, EmbedderLike, as_embedder, cosine, embed
from dokimos.judges._shapes import AsGiven

_MODEL: Final = "'openai:text-embedding-3-small'"


@dataclass(frozen=True, kw_only=True)
class EmbeddingSimilarity(Evaluator):
    """Cosine of the embeddings of the output and the expected answer, 0..1.

    A cosine below 0 scores 0.0; it is in the metadata as it was. What counts as near depends on the model:
    some give unrelated texts 0.1 and others 0.7, so choose a threshold by looking at examples. Where the
    expected output is a list of strings, the best score over them counts. A blank output scores 0.0.

    Example:
        >>> vectors = {"Paris": [1.0, 0.0], "The capital is Paris.": [0.8, 0.6]}
        >>> similarity = EmbeddingSimilarity(embedder=lambda texts: [vectors[text] for text in texts])
        >>> round(similarity.evaluate(EvalTestCase.of("Capital?", "Paris", "The capital is Paris.")).score, 3)
        0.8
    """

    method_source = "Cosine of two embeddings; the model decides what is near."
    judge_calls = "0; 1 request to the embedder"
    default_name = "Embedding Similarity"
    requires: ClassVar[tuple[str, ...]] = ("actual_output", "expected_output")
    is_async = True
    deterministic = False

    embedder: Annotated[EmbedderLike, AsGiven()] = field(
        metadata={"json_schema": {"type": "string"}, EXAMPLE: _MODEL}
    )
    """A model such as `openai:text-embedding-3-small`, an `Embedder` or a function of texts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        embedder: Any = self.embedder
        if embedder is None:
            raise ConfigurationError(f"{self.name} needs an embedder, such as embedder={_MODEL}.")
        object.__setattr__(self, "embedder", as_embedder(self.embedder))

    async def score(self, case: EvalTestCase) -> Score:
        output = case.actual_output or ""
        references = nonblank_reference_texts(case)
        if not output.strip():
            raise UnusableOutputError("The output is blank, so it has no meaning to compare.")
        first, *others = await embed(cast("Embedder", self.embedder), [output, *references])
        cosines = [cosine(first, other) for other in others]
        best = max(cosines)
        which = "expected answer" if len(cosines) == 1 else f"nearest of {len(cosines)} expected answers"
        return Score(
            max(0.0, best),
            f"The cosine of the output and the {which} is {best:.3f}.",
            metadata={"cosine": best, "reference": cosines.index(best)},
        )

"""Embedding similarity."""

import pytest

from dokimos import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators import EmbeddingSimilarity
from dokimos.evaluators.registry import build, schema

DIRECTIONS = {
    "yes": [1.0, 0.0],
    "yeah": [0.8, 0.6],
    "blue": [0.0, 1.0],
    "no": [-1.0, 0.0],
}


def directions(texts):
    return [DIRECTIONS[text] for text in texts]


def case(output, expected):
    return EvalTestCase(
        inputs={"input": "q"}, actual_outputs={"output": output}, expected_outputs={"output": expected}
    )


def result_of(output, expected, **parameters):
    return EmbeddingSimilarity(embedder=directions, **parameters).evaluate(case(output, expected))


@pytest.mark.parametrize(
    ("output", "expected", "score"),
    [("yes", "yes", 1.0), ("yeah", "yes", 0.8), ("blue", "yes", 0.0), ("no", "yes", 0.0)],
)
def test_the_score_is_the_cosine_and_never_below_zero(output, expected, score):
    assert result_of(output, expected).score == pytest.approx(score)


def test_a_cosine_below_zero_is_in_the_metadata():
    assert result_of("no", "yes").metadata["cosine"] == pytest.approx(-1.0)


def test_the_nearest_reference_counts_and_is_named():
    result = result_of("yeah", ["blue", "yes", "no"])

    assert result.score == pytest.approx(0.8)
    assert result.metadata["reference"] == 1
    assert result.reason == "The cosine of the output and the nearest of 3 expected answers is 0.800."


def test_without_a_threshold_it_only_informs():
    assert result_of("yes", "yes").success is None
    assert result_of("yeah", "yes", threshold=0.8 - 1e-6).success is True
    assert result_of("yeah", "yes", threshold=0.9).success is False


def test_a_blank_output_scores_zero_without_being_embedded():
    result = result_of("  ", "yes", threshold=0.5)

    assert (result.score, result.success) == (0.0, False)
    assert "blank" in result.reason


def test_a_blank_reference_is_an_error():
    assert "blank" in result_of("yes", " ").error


def test_an_embedder_that_fails_is_an_error_and_no_score():
    def broken(texts):
        raise RuntimeError("the model is gone")

    result = EmbeddingSimilarity(embedder=broken).evaluate(case("yes", "yes"))

    assert (result.score, result.error) == (None, "RuntimeError: the model is gone")


def test_it_needs_an_embedder():
    with pytest.raises(ConfigurationError, match="needs an embedder, such as"):
        EmbeddingSimilarity(embedder=None)
    with pytest.raises(TypeError, match="embedder"):
        EmbeddingSimilarity()


def test_it_is_built_by_name_and_has_a_schema():
    made = build("embedding_similarity", {"embedder": "ollama:nomic-embed-text", "threshold": 0.7})

    assert made.info().parameters["embedder"].startswith("embeddings of ollama nomic-embed-text")
    assert schema("embedding_similarity")["properties"]["embedder"]["type"] == "string"


def test_a_leaf_of_a_json_output_can_be_compared():
    made = EmbeddingSimilarity(embedder=directions, response_path="answer")

    assert made.evaluate(case('{"answer": "yes"}', "yes")).score == pytest.approx(1.0)

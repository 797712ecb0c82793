"""What of a module has to stay the same for stored outputs to stand for new ones."""

import pytest

from dokimos.experiment._evaluation_code import extract_answering_code

MODULE = """
from dokimos import Dataset, Example, Experiment
from dokimos.evaluators import Evaluator, ExactMatch, LLMJudge, evaluator

PROMPT = "Be kind."
rows = [Example.of("a", "A"), Example.of("b", "B")]
judged = LLMJudge(criteria="It is kind.", judge="openai:m")


class Own(Evaluator):
    def score(self, case):
        return 1


@evaluator
def short(case):
    return len(case.actual_output) < 10


def answer(question):
    return PROMPT + question


experiment = Experiment(Dataset(rows), answer, [judged, Own(), short, ExactMatch()], name="x")
"""


def part(source):
    return extract_answering_code(source.encode())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("It is kind.", "It is brief."),
        ('Example.of("b", "B")', 'Example.of("c", "C")'),
        ("return 1", "return 0"),
        ("< 10", "< 20"),
        ("ExactMatch()", "ExactMatch(threshold=0.5)"),
        ("ExactMatch()]", "ExactMatch(), LLMJudge(criteria='more')]"),
        ("import Evaluator,", "import Evaluator, F1Score,"),
        ("PROMPT =", "# a comment\nPROMPT ="),
        ("Dataset(rows)", "Dataset.load('rows.csv')"),
    ],
)
def test_a_change_of_the_evaluation_leaves_it_the_same(before, after):
    assert before in MODULE
    assert part(MODULE.replace(before, after)) == part(MODULE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Be kind.", "Be brief."),
        ("PROMPT + question", "question + PROMPT"),
        ("answer", "str.upper"),
        ("\n\nexperiment", "\n\nimport desk\ndesk.MODEL = 'large'\nexperiment"),
        ("\n\nexperiment", "\n\nPROMPT = 'x'\nexperiment"),
    ],
)
def test_any_other_change_counts(before, after):
    assert before in MODULE
    assert part(MODULE.replace(before, after)) != part(MODULE)


@pytest.mark.parametrize(
    "use",
    [
        "def answer(question):\n    return str(rows)\n",
        "few_shot = build(rows)\n",
        "answer = Bot(examples=rows)\n",
        "bot = lambda question: rows[0]\n",
        "for row in rows:\n    learn(row)\n",
        "copy = [rows]\nanswer = Bot(copy)\n",
    ],
)
def test_rows_that_the_application_uses_count(use):
    source = MODULE + use
    assert part(source.replace('("b", "B")', '("c", "C")')) != part(source)


def test_an_example_inside_a_call_of_the_application_counts():
    source = MODULE + 'bot = Bot(Dataset.load("shots.csv"))\n'
    assert part(source.replace("shots.csv", "more.csv")) != part(source)


def test_a_module_that_evaluates_nothing_counts_as_it_is():
    source = b"import os\n# a comment\n"
    assert extract_answering_code(source) == source
    broken = b"from dokimos.evaluators import (\n"
    assert extract_answering_code(broken) == broken


def test_names_that_are_defined_twice_count():
    source = MODULE + 'judged = LLMJudge(criteria="Another.")\n'
    assert part(source.replace("Another.", "A third.")) != part(source)

"""What an experiment refuses before anything runs, and how it says so."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from dokimos import Dataset, EvalResult, EvalTestCase, Example, Experiment, RunOptions, evaluate
from dokimos._core.results import ExperimentResult, RunStatus
from dokimos.datasets._dataset import DatasetStream
from dokimos.errors import ConfigurationError, DatasetError, DokimosError, UnknownSettingError
from dokimos.evaluators import ExactMatch
from dokimos.reporting._memory import MemoryReporter


class LooksLikeOne:
    name = "Looks like one"
    threshold = 0.5

    def evaluate(self, case: EvalTestCase) -> EvalResult:
        return EvalResult.of(self.name, 1.0, self.threshold)


DATA = Dataset([Example.of("a", "a")])
NONSENSE: tuple[Any, ...] = (object(), {"a": 1}, {}, [1], b"x", 2.5j, "", float("nan"), ("a",), object)


def plan(**changes: Any) -> Experiment:
    parts: dict[str, Any] = {"dataset": DATA, "task": lambda example: "a", "evaluators": [ExactMatch()]}
    return Experiment(**(parts | changes))


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("options", {}, r"options must be RunOptions\(...\), not {}"),
        ("options", {"timeout": 3}, r"Write RunOptions\(timeout=...\)"),
        ("metadata", "abc", "metadata must be a mapping such as {'model': 'small'}, not 'abc'"),
        ("metadata", [("model", "small")], "metadata must be a mapping"),
        ("prices", 3, "prices must be a function of model, tokens in and tokens out .* not 3"),
        ("name", None, "name must be text, not None"),
        ("description", 3, "description must be text, not 3"),
        ("runs", "3", "runs must be a whole number of at least 1, not '3'"),
        ("runs", 0, "runs must be a whole number of at least 1, not 0"),
        ("parallelism", True, "parallelism must be a whole number of at least 1, not True"),
        ("parallelism", 2.0, "parallelism must be a whole number of at least 1, not 2.0"),
        ("reporters", 3, "3 is not a reporter: it needs start_run or begin, report_item"),
        ("reporters", [MemoryReporter], r"write MemoryReporter\(...\)"),
        ("task", "evals.py", "The task must be callable, not str"),
        ("task", None, "needs a task"),
        ("evaluators", None, "evaluators must be a sequence or a function of an Example, not NoneType"),
        ("evaluators", "exact_match", r"write ExactMatch\(\.\.\.\) of dokimos.evaluators, or registry"),
        ("evaluators", ExactMatch, r"write ExactMatch\(...\)"),
        ("evaluators", {"exact": ExactMatch()}, "not dict"),
        ("evaluators", LooksLikeOne(), r"derived from Evaluator; write .*class LooksLikeOne\(Evaluator\):"),
        (
            "evaluators",
            [LooksLikeOne()],
            r"'def score\(self, case\): return Score\(value, reason\)'",
        ),
        ("evaluators", [LooksLikeOne], r"class LooksLikeOne\(Evaluator\):"),
        ("evaluators", [len], "decorate it with @evaluator"),
        ("evaluators", [], "at least one evaluator"),
        ("evaluators", [ExactMatch(), ExactMatch()], "Two evaluators are called 'Exact Match'"),
        ("dataset", "data.jsonl", r"Dataset.load\('data.jsonl'\)"),
        ("dataset", Path("data.jsonl"), r"Dataset.load\('data.jsonl'\)"),
        ("dataset", None, "needs a dataset"),
        ("dataset", 3, "Give a Dataset or examples, not int"),
        ("dataset", len, r"not len, which can be called; the order is evaluate\(dataset, task, evaluators\)"),
        ("evaluators", ["exact_match"], r"is not an evaluator but a text; write ExactMatch\(\.\.\.\)"),
        ("evaluators", "ExactMatch", r"write ExactMatch\(\.\.\.\) of dokimos.evaluators, or registry.build"),
        ("evaluators", ["nothing like it"], "but a text; `dokimos evaluators` lists all"),
        ("dataset", {"input": "a"}, "Give a Dataset or examples, not dict"),
        ("dataset", [], "has no examples"),
        ("timeout", "5", "timeout must be more than 0 seconds, not '5'"),
        ("timeout", 0, "timeout must be more than 0"),
        ("timeout", float("nan"), "timeout must be more than 0"),
        ("timeout", True, "timeout must be more than 0 seconds, not True"),
        ("retries", -1, "retries must be a whole number of 0 or more, not -1"),
        ("retries", 1.5, "retries must be"),
        ("seed", "1", "seed must be a whole number, not '1'"),
        ("max_errors", 1.5, "max_errors as a share must be in 0..1"),
        ("max_errors", -1, "max_errors must be 0 or more"),
        ("max_errors", float("nan"), "share must be in 0..1"),
        ("max_errors", "3", "max_errors must be a total"),
        ("shard", (4, 3), "1 <= i <= n"),
        ("shard", (1.0, 3), "1 <= i <= n"),
        ("shard", (0, 2), r"shard must be \(i, n\) with 1 <= i <= n"),
        ("shard", "1/2", r"shard must be \(i, n\) with 1 <= i <= n"),
        ("journal", "no", "journal must be True or False, not 'no'"),
        ("keep_results", 0, "keep_results must be True or False, not 0"),
        ("auto_close_reporters", None, "auto_close_reporters must be True or False, not None"),
        ("progress", "yes", "progress must be True, False or None, not 'yes'"),
        ("run_dir", 3, "run_dir must be a folder, not 3"),
        ("resume", True, "resume must be a run id or a run folder, not True"),
        ("resume", "", "resume must be a run id or a run folder, not ''"),
        ("retry_errors", True, "retry_errors needs resume=RUN"),
        ("force", True, "force needs resume=RUN"),
        ("redact", "secret", "redact must be a function"),
        ("budget", 5, "budget must be a Budget"),
        ("cassette", 3, "cassette must be a file, not 3"),
        ("cassette_mode", "play", "cassette_mode must be record, replay or auto"),
        ("cache", None, "cache must be True, False or a file, not None"),
        ("paralelism", 3, "no option 'paralelism'. Did you mean 'parallelism'"),
        ("time_out", 3, "Did you mean 'timeout'"),
        ("retires", 2, "no option 'retires'. Did you mean 'retries'"),
    ],
)
def test_a_wrong_argument_is_named_with_what_it_must_be(argument: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan(**{argument: value})


@pytest.mark.parametrize("name", [field.name for field in fields(Experiment)])
def test_nonsense_for_any_part_is_an_error_of_ours(name: str) -> None:
    fits: dict[str, tuple[Any, ...]] = {
        "name": ("",),
        "description": ("",),
        "metadata": ({"a": 1}, {}),
        "task": (object,),
        "evaluators": (object,),
        "prices": (object,),
    }
    for value in NONSENSE:
        if value in fits.get(name, ()):
            continue
        with pytest.raises(DokimosError):
            plan(**{name: value})


@pytest.mark.parametrize("name", [field.name for field in fields(RunOptions)])
def test_nonsense_for_any_option_is_a_configuration_error(name: str) -> None:
    for value in NONSENSE:
        if (name, value) == ("redact", object):
            continue
        with pytest.raises(ConfigurationError, match=name):
            RunOptions(**{name: value})


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(ConfigurationError) as caught:
        plan(name=["x" * 10_000])

    assert len(str(caught.value)) < 200


def test_resuming_needs_the_journal() -> None:
    with pytest.raises(ConfigurationError, match="journal=False cannot be combined"):
        RunOptions(resume="latest", journal=False)


def test_reporters_may_be_one_or_any_iterable_of_them() -> None:
    one, two = MemoryReporter(), MemoryReporter()

    assert plan(reporters=one).reporters == (one,)
    assert plan(reporters=(reporter for reporter in (one, two))).reporters == (one, two)


def test_rescoring_refuses_what_is_no_result_and_no_number() -> None:
    result = ExperimentResult(name="r", runs=(), status=RunStatus.COMPLETED)

    with pytest.raises(ConfigurationError, match="rescore\\(\\) takes an ExperimentResult, not str"):
        Experiment.rescore("latest", [ExactMatch()])
    with pytest.raises(ConfigurationError, match="parallelism must be a whole number of at least 1, not 0"):
        Experiment.rescore(result, [ExactMatch()], parallelism=0)


def test_a_stream_without_examples_is_refused_as_an_empty_dataset_is() -> None:
    empty = DatasetStream(lambda: [], name="nothing")

    with pytest.raises(ConfigurationError, match="The dataset 'nothing' has no examples"):
        plan(dataset=empty, parallelism=3, journal=False, progress=False).run()


def test_a_stream_of_anything_but_examples_says_what_it_gave() -> None:
    rows: Any = DatasetStream(lambda: iter([{"input": "a"}]), name="rows")  # type: ignore[arg-type,list-item] # refused

    with pytest.raises(DatasetError, match="The data set 'rows' gave a dict instead of an Example"):
        plan(dataset=rows, journal=False, progress=False).run()


def test_a_stream_is_made_of_a_function() -> None:
    with pytest.raises(ConfigurationError, match="takes a function that returns the examples, not list"):
        DatasetStream([Example.of("a")])  # type: ignore[arg-type] # refused


def test_a_list_of_rows_is_a_dataset():
    rows = [{"input": "a", "expectedOutput": "A"}, {"input": "b", "expectedOutput": "X"}]
    result = evaluate(rows, str.upper, [ExactMatch()], progress=False, quiet=True)
    assert [item.success for item in result.item_results] == [True, False]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("threads", "parallelism"),
        ("paralelism", "parallelism"),
        ("trials", "runs"),
        ("metrics", "evaluators"),
    ],
)
def test_a_setting_of_another_name_is_answered_by_ours(name, meant):
    with pytest.raises(UnknownSettingError, match=f"no option '{name}'. Did you mean '{meant}'?"):
        Experiment([Example.of("a", "b")], len, [ExactMatch()], **{name: 3})

from __future__ import annotations

import pytest

from dokimos import CallMetrics, Dataset, Example, TaskResult, recorded_task
from dokimos.errors import DatasetError


def test_what_was_recorded_is_returned():
    example = Example({"input": "q"}, actual_outputs={"output": "a"}, metrics=CallMetrics(3))
    assert recorded_task()(example) == TaskResult({"output": "a"}, CallMetrics(3))


def test_metrics_may_be_missing():
    assert recorded_task()(Example(actual_outputs={"output": ""})) == TaskResult.of({"output": ""})


def test_a_row_without_a_recorded_output_is_an_error_that_names_it():
    with pytest.raises(DatasetError, match=r"The example 'x' has no recorded output.*actual_output"):
        recorded_task()(Example.of("q", id="x"))


def test_a_csv_with_only_output_gets_an_explanation():
    example = Dataset.from_csv(text="input,output\nq,a\n")[0]
    with pytest.raises(DatasetError, match="'output' is read as the expected output"):
        recorded_task()(example)

"""The verdict of the soak test, without the soak."""

import argparse
import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

TOOL = Path(__file__).parents[3] / "tools" / "soak.py"


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])  # it adds the benchmarks
    spec = importlib.util.spec_from_file_location("soak", TOOL)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "soak", module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def samples(tool, duration, *, megabytes=lambda at: 150.0, handles=lambda at: 40, others=0.0):
    return [
        tool.Sample(float(at), megabytes(at), handles(at), megabytes(at) + others)
        for at in range(5, int(duration) + 1, 5)
    ]


def test_durations_are_read_as_people_write_them(tool):
    assert [tool.parse_duration(text) for text in ("90s", "20m", "2h", "1.5h")] == [90, 1200, 7200, 5400]
    for text in ("20", "0m", "two hours", "-5m"):
        with pytest.raises(argparse.ArgumentTypeError):
            tool.parse_duration(text)


def test_what_a_server_takes_while_it_warms_up_is_not_growth(tool, capsys):
    warm = samples(tool, 1200, megabytes=lambda at: min(150.0, 90 + at))

    assert tool.judge_samples(warm, 1200) == 0
    assert "grew by +0.00 MB" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("duration", "leak"),
    [(1200, {"megabytes": lambda at: 100 + at / 300}), (1200, {"handles": lambda at: 40 + at // 400})],
    ids=["memory", "handles"],
)
def test_a_leak_is_found(tool, duration, leak):
    assert tool.judge_samples(samples(tool, duration, **leak), duration) == 1


def test_hours_are_judged_by_the_growth_of_an_hour(tool):
    def judge(per_hour):
        return tool.judge_samples(samples(tool, 7200, megabytes=lambda at: 100 + at / 3600 * per_hour), 7200)

    assert (judge(1.5), judge(2.5)) == (0, 1)


def test_single_peaks_are_not_growth(tool):
    peaks = samples(tool, 1200, megabytes=lambda at: 190.0 if at % 60 == 0 else 150.0)

    assert tool.judge_samples(peaks, 1200) == 0


def test_all_processes_together_stay_below_the_limit(tool):
    assert tool.judge_samples(samples(tool, 1200, others=900.0), 1200) == 1


def test_a_short_soak_shows_growth_and_does_not_judge_it(tool, capsys):
    growing = samples(tool, 180, megabytes=lambda at: 90 + at / 10)

    assert tool.judge_samples(growing, 180) == 0
    assert "not judged" in capsys.readouterr().out

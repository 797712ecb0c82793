"""`dokimos size` on the command line."""

import json

import pytest

from dokimos._cli.main import run_command


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch):
    """Keep sentences on one line, whatever the terminal of the tests is."""
    monkeypatch.setenv("COLUMNS", "200")


def test_a_preset_says_what_runs_out_first(capsys):
    assert run_command(["size", "team"]) == 0

    out = capsys.readouterr().out
    assert "enough: one server on SQLite" in out
    assert "SQLite file runs out first, at 2.22 times this load." in out
    assert "Without that: nothing stops, but the file is larger" in out
    assert "unpriced" in out


def test_options_replace_parts_of_a_preset(capsys):
    assert run_command(["size", "team", "--spans", "2.5M", "--trace-days", "7", "--json"]) == 0

    tree = json.loads(capsys.readouterr().out)
    assert tree["load"]["spans"] == 2_500_000
    assert tree["load"]["traceDays"] == 7
    assert tree["load"]["items"] == 10_000


@pytest.mark.parametrize(
    ("options", "calls"), [("--items 1M", 3e6), ("--items 0", 0), ("--items 1M --judge-calls 5", 5)]
)
def test_each_item_of_a_preset_is_judged_as_often_however_many_there_are(capsys, options, calls):
    assert run_command(["size", "team", *options.split(), "--judge-price", "1,0", "--json"]) == 0

    tree = json.loads(capsys.readouterr().out)
    assert tree["load"]["judgeCalls"] == calls
    assert tree["judgeUsdPerDay"] == pytest.approx(calls * 1000 / 1e6)


def test_what_is_there_and_not_enough_names_what_would_be(capsys):
    assert run_command(["size", "internet", "--store", "postgresql", "--servers", "2"]) == 1
    enough = (
        "5 installations that divide the projects, each with 20 servers on one PostgreSQL and one ClickHouse"
    )
    assert f"Enough would be: {enough}" in capsys.readouterr().out

    run_command(["size", "internet", "--store", "postgresql", "--servers", "2", "--cores", "1"])
    assert "Enough would be" not in capsys.readouterr().out, "the machine is too small for any"


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        ("--items 5", "comparisons of runs are not counted"),
        ("--runs 100 --items 1", "more runs (100) than items (1)"),
        ("--judge-calls 5", "Calls of judges without items"),
    ],
)
def test_a_load_that_contradicts_itself_is_remarked_on(capsys, options, warning):
    assert run_command(["size", *options.split()]) == 0
    assert warning in capsys.readouterr().out


def test_a_load_in_order_has_no_remark(capsys):
    assert run_command(["size", "--runs", "1", "--items", "5", "--judge-calls", "5"]) == 0
    assert "!" not in capsys.readouterr().out


def test_without_a_preset_only_what_is_given_comes(capsys):
    command = "size --items 1_000 --judge-calls 1k --judge-price 1,10 --usd-per-hour 0.5 --json"
    assert run_command(command.split()) == 0

    tree = json.loads(capsys.readouterr().out)
    assert (tree["load"]["items"], tree["load"]["spans"]) == (1000, 0)
    assert tree["judgeUsdPerDay"] == pytest.approx(1 + 1)
    assert tree["machineUsdPerDay"] == 12


def test_what_is_there_and_not_enough_exits_with_1(capsys):
    assert run_command(["size", "company", "--servers", "1", "--spans", "1G"]) == 1

    out = capsys.readouterr().out
    assert "not enough: 1 server on one PostgreSQL" in out
    assert "of the spans get 503" in out
    assert "Nothing is refused" not in out


def test_a_limit_of_the_provider_that_is_too_low_exits_with_1(capsys):
    assert run_command(["size", "team", "--judge-calls-per-minute", "10"]) == 1
    assert "Nothing is refused" not in capsys.readouterr().out


def test_very_many_calls_of_judges_are_sized_at_once(capsys):
    assert run_command(["size", "--judge-calls", "1000G"]) == 0
    assert "95 % of them wait at most" in capsys.readouterr().out


def test_numbers_are_written_as_they_were_entered(capsys):
    command = "size --items 1 --runs 1 --peak 1 --peak-hours 24 --run-days 1 -v"
    assert run_command(command.split()) == 0

    out = capsys.readouterr().out
    assert "1 run · 1 item a day" in out
    assert "after 1 day of runs" in out
    assert "2,048 MiB" in out
    assert "measured-spans = 10,000,000 spans: the most" in out
    assert "e+" not in out


def test_very_large_numbers_are_written_out(capsys):
    assert run_command(["size", "--spans", "1000000000000000"]) == 0
    assert "1,000,000,000,000,000 spans a day" in capsys.readouterr().out


def test_a_narrow_terminal_keeps_names_whole(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert run_command(["size", "company"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 60 for line in lines)
    assert any(line.startswith("  comparison memory ") for line in lines)


def test_a_unit_cost_can_be_given_and_is_listed_so(capsys):
    assert run_command(["size", "team", "--cost", "span-cpu-ms=0.05", "-v"]) == 0

    line = next(line for line in capsys.readouterr().out.splitlines() if "span-cpu-ms" in line)
    assert "span-cpu-ms = 0.05 ms: CPU of the server for a span" in line
    assert "(given)" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Name a load (laptop, team, company, internet)"),
        (["--items", "0"], "Name a load"),
        (["galaxy"], "'galaxy' is not one of"),
        (["team", "--items", "many"], "'many' is not a number such as 5000, 5,000, 250k, 1M or 10G."),
        (["team", "--items", "1,5"], "'1,5' is not a number"),
        (["team", "--items", "9999999G"], "--items': '9999999G' is too large"),
        (["team", "--span-bytes", "2G"], "--span-bytes': '2G' is too large"),
        (["team", "--peak", "nan"], "--peak': 'nan' is not a number"),
        (["team", "--disk-gb", "inf"], "--disk-gb': inf is not in the range"),
        (["team", "--trace-days", "1e9"], "--trace-days': 1000000000.0 is not in the range"),
        (["team", "--peak-hours", "8"], "peak (10) times peak_hours (8) must be at most 24"),
        (["team", "--items", "0", "--runs", "0", "--judge-calls", "0", "--spans", "0"], "The load is empty"),
        (["team", "--items", "-5"], "'-5' is not a number"),
        (["team", "--judge-price", "1"], "'1' is not two prices such as 0.15,0.60"),
        (["team", "--judge-price", "1,nan"], "is not two prices"),
        (["team", "--cost", "span-cpu-ms"], "is not NAME=VALUE"),
        (["team", "--cost", "spam=1"], "There is no unit cost 'spam'."),
        (["team", "--store", "sqlite", "--servers", "2"], "--store sqlite has one server"),
        (["team", "--peak", "0.5"], "0.5 is not in the range"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(arguments, message, capsys):
    assert run_command(["size", *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())

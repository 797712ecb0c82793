"""Run the tests of traces with their spans in ClickHouse.

    python tools/test_clickhouse.py [ARGUMENT ...]

Uses the ClickHouse that DOKIMOS_TEST_CLICKHOUSE_URL names (such as clickhouse://user:password@host:8123,
whose user may create databases). Without one, it builds `tests/frameworks/.venv/clickhouse` with the engine
that the package `chdb-core-lite` embeds, which runs in a process of its own; DOKIMOS_TEST_CHDB_PYTHON names
an interpreter that has it already. Arguments go to pytest; `--engine` alone prints such an interpreter, which
it builds where there is none, for the few of these tests that `make test` runs too.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / "tests" / "frameworks" / ".venv" / "clickhouse"
ENGINE = "chdb-core-lite==26.5.0"
TESTS = (
    "test_batched_span_reads.py",
    "test_clickhouse.py",
    "test_clickhouse_backup.py",
    "test_deleted_trace_rules.py",
    "test_odd_searches.py",
    "test_online_evaluation.py",
    "test_promotion.py",
    "test_redaction.py",
    "test_same_searches.py",
    "test_span_logs.py",
    "test_span_search.py",
    "test_span_writer.py",
    "test_trace_alerts.py",
    "test_trace_bad_input.py",
    "test_trace_convergence.py",
    "test_trace_datasets.py",
    "test_trace_files.py",
    "test_trace_ingestion.py",
    "test_trace_parts.py",
    "test_trace_removal.py",
    "test_trace_retention.py",
    "test_trace_reviews.py",
    "test_trace_scores.py",
    "test_trace_search.py",
    "test_trace_views.py",
    "test_traces.py",
)
NOT_OF_CLICKHOUSE = (
    "test_batched_span_reads.py::test_on_sql_too_one_query_reads_the_spans_of_many_traces",
    "test_span_logs.py::test_spans_and_their_records_that_come_at_once_meet",
    "test_span_writer.py::test_a_span_that_cannot_be_stored_costs_no_other_export_that_comes_with_it",
    "test_trace_parts.py::test_a_part_is_read_from_an_index_without_the_other_spans",
    "test_trace_retention.py::test_a_day_that_is_being_read_is_dropped_at_the_next_sweep",
    "test_trace_retention.py::test_a_sweep_waits_for_what_removes_deleted_traces_at_that_moment",
    "test_trace_retention.py::test_sqlite_makes_its_file_smaller",
    "test_trace_retention.py::test_the_last_two_days_keep_their_storage",
    "test_trace_search.py::test_a_search_of_a_period_reads_no_day_in_which_nothing_of_it_came",
)
"""Tests of what SQLite and PostgreSQL have in their own tables."""


def main(arguments):
    """Run the tests and exit as they do; with 1 where there is no ClickHouse."""
    if arguments == ["--engine"]:
        print(build_engine())
        return
    variables = {**os.environ, "DOKIMOS_TEST_TRACE_STORE": "clickhouse"}
    if not (variables.get("DOKIMOS_TEST_CLICKHOUSE_URL") or variables.get("DOKIMOS_TEST_CHDB_PYTHON")):
        variables["DOKIMOS_TEST_CHDB_PYTHON"] = build_engine()
    paths = [f"tests/server/{name}" for name in TESTS]
    skipped = [f"--deselect=tests/server/{name}" for name in NOT_OF_CLICKHOUSE]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *skipped, *paths, *arguments]
    sys.exit(subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode)


def build_engine():
    """Build the environment of the engine where it is missing; return its interpreter."""
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / f".{ENGINE}"
    if not stamp.exists():
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        # Without what it needs to return data frames, which is several times its size.
        install = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps"]
        if subprocess.run([*install, ENGINE], check=False).returncode:
            sys.exit(
                f"{ENGINE} cannot be installed, and DOKIMOS_TEST_CLICKHOUSE_URL names no ClickHouse: "
                "the tests of traces on ClickHouse need one of the two."
            )
        stamp.touch()
    return str(python)


if __name__ == "__main__":
    main(sys.argv[1:])

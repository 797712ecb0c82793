"""Searches for patterns that people wrote."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from dokimos.core.patterns import search_within_limit

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no timer of CPU time")

HEAD = """
import re, signal, threading
from dokimos import Dataset, Example, Experiment
from dokimos.core import patterns
from dokimos.core.patterns import search_within_limit as search
from dokimos.errors import EvaluationError
from dokimos.evaluators import Regex

patterns.LIMIT_SECONDS = 0.2
SLOW = re.compile("(a+)+$")
TEXT = "a" * 40 + "b"
"""


def output_of(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", HEAD + program], capture_output=True, text=True, timeout=60, check=True
    ).stdout


def test_a_search_finds_what_re_finds():
    assert search_within_limit(re.compile("b+"), "abbc").span() == (1, 3)
    assert search_within_limit(re.compile("b+"), "abbc", whole=True) is None
    assert search_within_limit(re.compile("ab+c"), "abbc", whole=True).span() == (0, 4)
    assert search_within_limit(re.compile("x"), "abbc") is None


@POSIX
def test_a_pattern_that_never_decides_is_an_error_that_says_what_to_do():
    out = output_of("""
for whole in (False, True):
    try:
        search(SLOW, TEXT, whole=whole)
    except EvaluationError as error:
        print(error)
print(search(re.compile("b+"), TEXT).span())
""")
    first, second, after = out.splitlines()
    assert first == second
    assert "'(a+)+$' was still not decided after 0.2 s on a text of 41 characters" in first
    assert "(a++)+" in first
    assert after == "(40, 41)"


@POSIX
def test_time_that_other_threads_take_does_not_count():
    out = output_of("""
patterns.LIMIT_SECONDS = 60
set_timer = signal.setitimer
patterns.signal.setitimer = lambda timer, seconds: set_timer(timer, min(seconds, 0.01))
print(search(SLOW, "a" * 20 + "b"))
""")
    assert out == "None\n"


@POSIX
def test_one_such_output_does_not_hold_up_a_run():
    out = output_of("""
data = Dataset([Example.of(TEXT), Example.of("aaaa")])
result = Experiment(data, lambda text: text, [Regex(pattern="(a+)+$")], journal=False, progress=False).run()
bad, good = result.item_results
print(bad.eval_results[0].error is not None, bad.eval_results[0].score, good.success)
""")
    assert out == "True None True\n"


@POSIX
def test_a_timer_of_the_users_own_is_left_alone():
    out = output_of("""
def mine(signum, frame): print("mine")
signal.signal(signal.SIGVTALRM, mine)
print(search(re.compile("b+"), TEXT).span(), signal.getsignal(signal.SIGVTALRM) is mine)
""")
    assert out == "(40, 41) True\n"


def test_a_thread_searches_without_a_timer():
    out = output_of("""
found = []
thread = threading.Thread(target=lambda: found.append(search(re.compile("b+"), TEXT).span()))
thread.start()
thread.join()
print(found)
""")
    assert out == "[(40, 41)]\n"

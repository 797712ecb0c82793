"""Suites: an agent, its metrics and its test cases in one YAML file, run as an ordinary experiment."""

from dokimos.suites.loader import load_suite
from dokimos.suites.suite import Suite

__all__ = ["Suite", "load_suite"]

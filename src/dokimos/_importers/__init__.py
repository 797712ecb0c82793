"""Configurations of other tools, converted into suites."""

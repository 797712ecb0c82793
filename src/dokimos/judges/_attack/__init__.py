"""Trying to talk a judge into a better verdict: a corpus of attempts, and what share of them succeeds."""

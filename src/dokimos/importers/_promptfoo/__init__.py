"""Configurations of promptfoo, turned into suites; what has no counterpart is listed, never guessed."""

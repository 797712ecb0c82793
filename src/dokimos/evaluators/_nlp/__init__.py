"""Evaluators that compare the text of the output with one or more reference texts."""

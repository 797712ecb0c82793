"""Graders of the financial assistant."""

"""Runs, their items and scores: lists, counts, pages, and how long they stay."""

"""Datasets, their versions, edits and differences, and promotion into them."""

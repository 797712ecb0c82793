"""Evaluators of what a retriever found, and the ways to tell that two items are the same."""

"""Evaluators of conversations."""

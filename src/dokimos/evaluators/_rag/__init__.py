"""Evaluators for answers that rest on retrieved context."""

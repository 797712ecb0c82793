"""Graders of the figures desk."""

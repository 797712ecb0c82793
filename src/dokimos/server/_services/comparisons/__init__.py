"""Comparisons of runs, the gate and its baselines."""

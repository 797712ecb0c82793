"""Routes of runs and items."""

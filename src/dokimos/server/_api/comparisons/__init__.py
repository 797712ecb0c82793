"""Routes of comparisons and the gate."""

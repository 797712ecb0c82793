"""Where the results of a run go while it runs."""

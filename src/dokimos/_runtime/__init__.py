"""What a run needs of the process: threads, signals, locks, limits; it knows no value of ours."""

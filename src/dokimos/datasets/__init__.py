"""Data sets: read from files and rows, streamed, written, and named by their content."""

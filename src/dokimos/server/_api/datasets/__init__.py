"""Routes of datasets and their versions."""

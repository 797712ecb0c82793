"""The vocabulary: frozen values without I/O that everything above is built from."""

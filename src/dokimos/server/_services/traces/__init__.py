"""Production traces: taken in, listed, read, and how long they stay."""

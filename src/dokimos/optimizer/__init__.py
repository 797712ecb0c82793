"""The optimizer: better parameters and instructions of a suite, accepted on cases that it never saw."""

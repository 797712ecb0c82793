"""Statistics: small pure functions on the standard library."""

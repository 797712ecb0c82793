"""Secrets that the tables hold, and the rotation of their passphrase."""

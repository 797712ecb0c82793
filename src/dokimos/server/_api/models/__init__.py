"""Routes of connections to models."""

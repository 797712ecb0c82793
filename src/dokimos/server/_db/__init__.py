"""What the server stores, on SQLite and on PostgreSQL, from the same tables."""

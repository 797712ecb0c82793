"""What `dokimos db` does: upgrade and check a database, archive it, and load archives."""

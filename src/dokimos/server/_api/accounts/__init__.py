"""Routes of keys, users, members and sessions, and who a request is from."""

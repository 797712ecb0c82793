"""Who calls: keys, users, members of projects and sessions."""

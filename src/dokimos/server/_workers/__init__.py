"""What the server does in the background."""

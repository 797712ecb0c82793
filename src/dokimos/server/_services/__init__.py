"""What the server does: reads and writes in terms of the domain; each write is one transaction."""

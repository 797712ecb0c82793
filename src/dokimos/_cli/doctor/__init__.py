"""What this machine has of what dokimos can use, and what to do about what is missing."""

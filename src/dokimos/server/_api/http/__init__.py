"""What each request goes through, and what all routes share."""

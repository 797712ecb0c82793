"""Routes of production traces."""

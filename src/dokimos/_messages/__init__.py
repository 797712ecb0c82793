"""Messages and tools as providers and frameworks write them, read into one neutral form and written again."""

"""The commands that measure; each has a file of its own."""

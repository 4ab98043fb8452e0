"""Comparing, counting and timing what was decoded."""

"""Prompts that the embedded pair was trained on, with held-out splits."""

"""Tasks: prompts that the embedded pair was trained on, with held-out splits and exact scores."""

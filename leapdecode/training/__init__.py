"""Consistency training (CLLM, Kou et al. 2024): trajectories, losses, packing, training."""

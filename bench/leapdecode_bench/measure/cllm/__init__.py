"""What consistency training does to a model: speed, quality and the trajectories themselves."""

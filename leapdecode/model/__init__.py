"""Running an unmodified transformers model over token trees."""

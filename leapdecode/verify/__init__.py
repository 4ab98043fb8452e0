"""The target's choice at every node, and the walk that accepts what it would have said anyway."""

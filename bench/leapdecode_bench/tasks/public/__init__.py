"""Public sets in their published file formats: one file is one set."""

"""Execution strategies of tree search, compared: records, figures, a simulation, a page."""

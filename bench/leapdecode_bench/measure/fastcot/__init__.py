"""FastCoT against chains of thought: contenders, records, figures, studies of the paper, a page."""

"""What methods remember: n-grams, earlier occurrences, the lookahead window. Plain Python, no
models.
"""

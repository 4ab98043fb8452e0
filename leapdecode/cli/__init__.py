"""The command line."""

# first of all its modules, because it looks on from then on
from leapdecode.cli import waiting_threads as waiting_threads

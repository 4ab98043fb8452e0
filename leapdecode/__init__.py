"""leapdecode."""

"""leapdecode inside engines and harnesses that others make; one file or folder each."""

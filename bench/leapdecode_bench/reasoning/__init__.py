"""Our tasks and the public sets as trees of thoughts and as questions for FastCoT."""

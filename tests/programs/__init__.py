"""Real programs run on the preloaded library, each judged by its own result."""

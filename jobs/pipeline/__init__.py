"""The Spark jobs of `tiersnap run` and of the other commands that use a warehouse. Each stage of a run has a module."""

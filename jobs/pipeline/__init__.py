"""The Spark job of `tiersnap run` and of the other commands that use a warehouse, one module per stage."""

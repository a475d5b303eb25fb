"""`tiersnap collect`: decode a log directory, and write the result to a folder that `tiersnap run` reads."""

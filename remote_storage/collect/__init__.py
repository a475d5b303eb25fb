"""`tiersnap collect`: the decodes of one log directory, shipped to a folder that a fleet's run reads."""

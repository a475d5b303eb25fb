"""`tiersnap collect`: write the decodes of a log directory to a folder that a run of the fleet reads."""

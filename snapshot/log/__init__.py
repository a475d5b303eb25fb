"""From a log directory to segments and their batches."""

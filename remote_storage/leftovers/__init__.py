"""What attempts, probes and killed processes of tiersnap left, and every run removes: no cluster need be asked."""

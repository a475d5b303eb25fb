"""What a store does and does not do for its users, asked of it: `tiersnap doctor --remote`."""

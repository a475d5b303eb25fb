"""How a segment becomes objects, and their keys."""

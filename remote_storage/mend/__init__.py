"""Mend remote segments: put missing objects back or rebuild them, and replace wrong segments by right ones."""

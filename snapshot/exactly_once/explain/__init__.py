"""Explain errors and situations by name: the tables of `models`, for one release or for all."""

"""Explanations of errors and situations by name, from the tables of `models`, for one release or for all."""

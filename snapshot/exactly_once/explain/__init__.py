"""Explanations of errors and of named situations, from the tables of `models`, for one release or for all."""

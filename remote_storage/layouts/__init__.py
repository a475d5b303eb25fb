"""Layouts: the objects of a remote segment, and their keys."""

"""Layouts: the objects of a segment, and their keys."""

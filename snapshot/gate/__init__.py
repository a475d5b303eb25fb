"""Readiness: one verdict a segment."""

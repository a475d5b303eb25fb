"""Verify remote segments: metadata, snapshots, or every byte."""

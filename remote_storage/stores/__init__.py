"""Stores of objects: S3 and directories."""

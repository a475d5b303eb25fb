"""Spark sessions of our own: how one is made, its jars, its submit line, and its failures in words."""

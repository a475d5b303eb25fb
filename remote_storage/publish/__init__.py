"""Publish finished segments after proof that brokers read this remote location."""

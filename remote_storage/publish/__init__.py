"""Publish finished segments to brokers, once it is proven that they read where the segments lie."""

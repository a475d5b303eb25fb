"""Metrics of a run: samples, and the text that Prometheus reads."""

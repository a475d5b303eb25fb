"""What monitoring is told of a run: samples, and the texts that Prometheus and StatsD read."""

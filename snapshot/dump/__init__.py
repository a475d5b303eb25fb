"""Contents of a Kafka storage file, as columns (for tables and JSON) or as the output of kafka-dump-log."""

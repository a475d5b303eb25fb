"""Any Kafka storage file as columns (for tables and JSON) or as the text that kafka-dump-log prints."""

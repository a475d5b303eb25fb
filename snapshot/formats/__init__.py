"""Encoders and decoders of Kafka's storage formats, one module per format."""

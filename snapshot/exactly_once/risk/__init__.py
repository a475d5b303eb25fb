"""KIP-952's rejected alternatives in numbers: what each of them would cost the log that is there."""

"""The other half of KIP-405: remote segments that retention has passed, of partitions that no broker manages."""

"""Pure functions that return the answers of Kafka's coordinators and brokers, and the reactions of Java clients."""

"""What tiersnap claims, shown by Kafka itself."""

"""The parts of `tiersnap demo`: its logs, its folder, and an S3 server of its own."""

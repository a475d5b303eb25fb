"""What `tiersnap demo` runs on: its logs, its folder, and an S3 server of its own."""

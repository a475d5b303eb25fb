"""The S3 server of `tiersnap demo`."""

"""Places that keep objects: S3 and directories."""

"""Remote storage: object keys, object stores, remote segment metadata and its states, the gate and the uploader.

The only place with boto3, which is imported when an `s3://` store is opened and not before.
"""

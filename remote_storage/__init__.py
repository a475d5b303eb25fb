"""Remote storage: object keys, object stores, remote segment metadata and its states, the gate and the uploader.

Only this package uses boto3, and imports it when an `s3://` store is opened.
"""

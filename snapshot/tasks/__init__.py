"""The bodies of Spark tasks: callables over Arrow record batches, without Spark.

Each is picklable, takes an iterator of batches and yields batches of its result's schema. Expected failures are rows.
"""

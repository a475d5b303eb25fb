"""What a Spark task does with its rows: callables over Arrow record batches, without Spark.

Each is picklable, takes an iterator of batches and yields batches of its result's schema. Expected failures are rows.
"""

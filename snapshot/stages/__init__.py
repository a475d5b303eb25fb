"""The stages of a run as tasks: plan rows in, result rows out, files written on the way.

A task is a picklable callable over Arrow record batches, so the same code runs in a Spark executor (mapInArrow) and in
a local process. Expected failures are rows, not exceptions.
"""

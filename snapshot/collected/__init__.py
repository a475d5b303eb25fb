"""The files that `tiersnap collect` writes for one log directory, so that a fleet's run needs no access to its disk.

    <to>/collected.json                                             the broker, the log directory and its partitions
    <to>/<topic>-<partition>/listing.parquet                        the partition's files, and the objects below
    <to>/<topic>-<partition>/<20 digits>-<12 hex>.segments.parquet  rows of `segments`, of neighbours from an offset on
    <to>/<topic>-<partition>/<20 digits>-<12 hex>.batches.parquet   rows of `record_batches` of the same segments
    <to>/<topic>-<partition>/<20 digits>-<12 hex>.snapshot          a broker's file, by its exclusive end offset

`collected.json` and the listings are replaced atomically. Every other object has a unique name and never changes. So a
listing is consistent whenever it is read. Objects that it no longer names are deleted a day later, when no run uses an
older listing any more.
"""

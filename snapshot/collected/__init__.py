"""The files that `tiersnap collect` ships of one log directory, so that a fleet's run needs no broker's disk.

    <to>/collected.json                                             whose log directory it is, and its partitions now
    <to>/<topic>-<partition>/listing.parquet                        what the partition holds now, and the objects below
    <to>/<topic>-<partition>/<20 digits>-<12 hex>.segments.parquet  rows of `segments`, of neighbours from an offset on
    <to>/<topic>-<partition>/<20 digits>-<12 hex>.batches.parquet   rows of `record_batches` of the same segments
    <to>/<topic>-<partition>/<20 digits>-<12 hex>.snapshot          a broker's file, by its exclusive end offset

`collected.json` and the listings are replaced atomically; every other object has a name that no other attempt gives,
and never changes. So a listing is true whenever it is read, and what it no longer names is deleted a day later, when no
run reads by an older listing any more.
"""

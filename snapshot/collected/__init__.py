"""The files that `tiersnap collect` writes for one log directory. `tiersnap run` reads them instead of the disk.

    <to>/collected.json                                             the broker, the log directory and its partitions
    <to>/<topic>-<partition>/listing.parquet                        names of the partition's files and objects
    <to>/<topic>-<partition>/<20 digits>-<12 hex>.segments.parquet  rows of the table `segments`
    <to>/<topic>-<partition>/<20 digits>-<12 hex>.batches.parquet   rows of `record_batches` for the same segments
    <to>/<topic>-<partition>/<20 digits>-<12 hex>.snapshot          a producer snapshot

The 20 digits in an object name are the first base offset of the rows, or the snapshot offset.

`collected.json` and the listings are replaced atomically. Every other object has a unique name and never changes, so
a listing always names objects that exist. `collect` deletes an object a day after the listing dropped its name. By
then no run uses an older listing.
"""

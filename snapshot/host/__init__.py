"""A broker host: whose disks these are, how full, and whether a broker runs on them."""

"""What a broker host says of itself: whose disks these are, how full, and whether a broker runs on them."""

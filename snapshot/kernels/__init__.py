"""The compiled loops, written in Python and compiled by numba; see native."""

"""The compiled loops: what they do is Python that numba compiles, see native."""

"""The compiled loops; before the first of them is loaded, numba is told where to keep what it compiles."""

from tiersnap.snapshot.kernels.cache import ensure_place

ensure_place()

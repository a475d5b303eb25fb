"""Compiled loops: Python functions that numba compiles; see the module native."""

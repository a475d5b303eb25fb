"""moto's S3 server with a CRC-32C: without the `crc32c` package it would say CRC32 for that of multipart uploads."""

import importlib.machinery
import sys
import types

import google_crc32c
from moto.server import main

if __name__ == "__main__":
    module = types.ModuleType("crc32c")
    module.__spec__ = importlib.machinery.ModuleSpec("crc32c", None)
    module.crc32c = google_crc32c.value
    sys.modules["crc32c"] = module
    main(sys.argv[1:])

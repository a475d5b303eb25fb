"""Options of the commands that run on Spark."""

from __future__ import annotations

from tiersnap.jobs.options import SparkRequest as SparkRequest
from tiersnap.jobs.options import spark_options as spark_options

"""Options that are said on the command line each time."""

from __future__ import annotations

from tiersnap.jobs.option_types import once as once
from tiersnap.jobs.options import LAYOUTS as LAYOUTS

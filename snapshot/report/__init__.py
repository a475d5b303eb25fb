"""The readiness report: what is tiered, what is ready, what waits and why, as a page, as files and as rows.

READINESS rows --summarise--> Report --to_html / to_json / to_csv / topic_rows / partition_rows--> ...
                                     --write_report--> index.html, runs.html, readiness.json, readiness.csv, ...
"""

from tiersnap.snapshot.report.files import CSV_COLUMNS, SCHEMA_VERSION, to_csv, to_json
from tiersnap.snapshot.report.html_page import to_html
from tiersnap.snapshot.report.model import Report
from tiersnap.snapshot.report.rows import COLUMNS, By, partition_rows, segment_rows, topic_rows
from tiersnap.snapshot.report.run_info import RunCounts, RunInfo
from tiersnap.snapshot.report.severity import LEVEL, MEANING, SEVERITY, Level
from tiersnap.snapshot.report.summary import DEFAULT_DETAILS, summarise
from tiersnap.snapshot.report.write import write_report

__all__ = [
    "COLUMNS",
    "CSV_COLUMNS",
    "DEFAULT_DETAILS",
    "LEVEL",
    "MEANING",
    "SCHEMA_VERSION",
    "SEVERITY",
    "By",
    "Level",
    "Report",
    "RunCounts",
    "RunInfo",
    "partition_rows",
    "segment_rows",
    "summarise",
    "to_csv",
    "to_html",
    "to_json",
    "topic_rows",
    "write_report",
]

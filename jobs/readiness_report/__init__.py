"""The readiness report: what is tiered, what is ready, what waits and why, as a page, as files and as rows.

READINESS rows --summarise--> Report --to_html / to_json / to_csv / topic_rows / partition_rows--> ...
                                     --write_report--> index.html, readiness.json, readiness.csv
"""

from jobs.readiness_report.files import CSV_COLUMNS, SCHEMA_VERSION, to_csv, to_json
from jobs.readiness_report.html_page import to_html
from jobs.readiness_report.model import Report
from jobs.readiness_report.rows import COLUMNS, By, partition_rows, segment_rows, topic_rows
from jobs.readiness_report.run_info import RunInfo
from jobs.readiness_report.severity import LEVEL, MEANING, SEVERITY, Level
from jobs.readiness_report.summary import DEFAULT_DETAILS, summarise
from jobs.readiness_report.write import write_report

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

"""The readiness report: the verdicts of all segments with their reasons, as HTML pages, JSON, CSV and table rows.

`summary.summarise` builds a Report from READINESS rows. `write.write_report` writes its files into a folder.
"""

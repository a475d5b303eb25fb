"""Airflow's clock for tiersnap: a daily DAG and a backfill over days of segments.

A file in the folder of DAGs imports `dags`. It needs Airflow 3 and its Spark provider, but none of tiersnap's own
dependencies: spark-submit does the work, in an environment of its own.
"""

"""Airflow DAGs that run tiersnap: a daily run, and a backfill over days of segments.

A file in the folder of DAGs imports the module `dags`. Airflow's environment needs Airflow 3 and its Spark provider,
but none of tiersnap's dependencies: spark-submit starts the jobs in another environment.
"""

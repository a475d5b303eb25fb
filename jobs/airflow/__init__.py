"""Airflow's clock for tiersnap: a daily DAG and a backfill over days of segments.

`dags` is what a file in the folder of DAGs imports; it needs Airflow 3 and its Spark provider, and nothing that
tiersnap itself needs: the work is done by spark-submit, in an environment of its own.
"""

"""tiersnap's DAGs; copy this file into Airflow's folder of DAGs. docs/airflow.md says what else is needed."""

from tiersnap.jobs.airflow.dags import backfill, daily
from tiersnap.jobs.airflow.run_operator import DELTA

# For a warehouse on S3, of the Hadoop inside Spark 4.2; leave it out if the warehouse is a shared folder.
S3A = "org.apache.hadoop:hadoop-aws:3.5.0"

tiersnap_daily = daily(packages=f"{DELTA},{S3A}")
tiersnap_backfill = backfill(packages=f"{DELTA},{S3A}")

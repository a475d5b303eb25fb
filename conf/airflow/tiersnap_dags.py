"""tiersnap's DAGs; copy this file into Airflow's folder of DAGs. docs/airflow.md says what else is needed."""

from tiersnap.jobs.airflow.dags import backfill, daily

tiersnap_daily = daily()
tiersnap_backfill = backfill()

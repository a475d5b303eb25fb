# The job image for Spark on Kubernetes: docker build -f conf/images/spark.Dockerfile -t tiersnap-spark:0.1.0 .
# The image has the Spark version of uv.lock, and its own Python 3.11 for driver and executors. Built by buildah 1.28 on
# another base (Debian 12 with Java 17, Python 3.11 and pyspark 4.1.1), tiersnap added 1.2 GB. There spark-submit of
# jobs/run.py wrote the snapshots of the bundled logs as user 185.
ARG SPARK_IMAGE=apache/spark:4.2.0-scala2.13-java21-ubuntu
FROM ${SPARK_IMAGE} AS build
USER root
COPY --from=ghcr.io/astral-sh/uv:0.13.9 /uv /usr/local/bin/uv
WORKDIR /src
COPY pyproject.toml uv.lock README.md LICENSE CHANGELOG.md ./
COPY src src
COPY snapshot snapshot
COPY remote_storage remote_storage
COPY jobs jobs
COPY conf conf
COPY docs/runbook.md docs/kips.md docs/
COPY tests/data/ledger-2.7.2/logs tests/data/ledger-2.7.2/logs
ENV UV_PYTHON_INSTALL_DIR=/opt/python UV_PROJECT_ENVIRONMENT=/opt/tiersnap
RUN uv sync -q --frozen --no-dev --no-editable --extra spark --extra s3 --python 3.11
# Delta's jars are in the image, so that no session downloads them.
RUN TIERSNAP_JARS=/opt/delta /opt/tiersnap/bin/python -m tiersnap.jobs.pipeline.delta_jars
# hadoop-aws for a warehouse on S3, in the version of this Spark's Hadoop: 660 MB, of which the AWS SDK has 654.
RUN HADOOP=$(ls /opt/spark/jars | sed -n 's/^hadoop-client-api-\(.*\)[.]jar$/\1/p') && java -cp "$(echo /opt/spark/jars/ivy-*.jar)" org.apache.ivy.Main -warn -confs default -dependency org.apache.hadoop hadoop-aws "$HADOOP" -retrieve "/opt/hadoop-aws/[artifact]-[revision].[ext]"

FROM ${SPARK_IMAGE}
USER root
COPY --from=build /opt/python /opt/python
COPY --from=build /opt/tiersnap /opt/tiersnap
COPY --from=build /opt/delta /opt/delta
COPY --from=build /opt/hadoop-aws /opt/spark/jars
RUN cp /opt/delta/*/*.jar /opt/spark/jars/ && mkdir -m 1777 /var/cache/tiersnap
ENV PATH=/opt/tiersnap/bin:$PATH TIERSNAP_JARS=/opt/delta XDG_CACHE_HOME=/var/cache/tiersnap
ENV PYSPARK_PYTHON=/opt/tiersnap/bin/python PYSPARK_DRIVER_PYTHON=/opt/tiersnap/bin/python
USER 185
RUN ["tiersnap", "--version"]

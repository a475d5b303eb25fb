# The job image for Spark on Kubernetes: docker build -f conf/images/spark.Dockerfile -t tiersnap-spark:0.1.0 .
# Spark of the version in uv.lock, with a Python 3.11 of its own for driver and executors. Built by buildah 1.28 on Debian
# 12 with Java 17, its Python 3.11 and pyspark 4.1.1, under the name of the base, as Docker's registry was out of reach:
# 1.2 GB on top of it. In it, spark-submit of jobs/run.py wrote the bundled logs' snapshots as user 185.
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
# Delta's jars are in the image, so that no session asks the network.
RUN TIERSNAP_JARS=/opt/delta /opt/tiersnap/bin/python -m tiersnap.jobs.pipeline.delta_jars
# For a warehouse on S3, of this Spark's own Hadoop: 660 MB, of which the AWS SDK is 654.
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

# A small image for hosts and CronJobs: docker build -f conf/images/host.Dockerfile -t tiersnap:0.1.0 .
# Python, tiersnap and the extras s3 and kafka; no Java, no Spark. Built by buildah 1.28 from Debian's Python 3.11 under
# the name of the base: 480 MB on top of it, 41 s.
FROM python:3.11-slim AS build
# The same uv as in the Makefile.
RUN pip install --no-cache-dir uv==0.13.9
WORKDIR /src
COPY pyproject.toml uv.lock README.md LICENSE CHANGELOG.md ./
COPY src src
COPY snapshot snapshot
COPY remote_storage remote_storage
COPY jobs jobs
COPY conf conf
COPY docs/runbook.md docs/kips.md docs/
COPY tests/data/ledger-2.7.2/logs tests/data/ledger-2.7.2/logs
# Exactly what the lock file names, into an environment that does not need the sources.
ENV UV_PROJECT_ENVIRONMENT=/opt/tiersnap
RUN uv sync -q --frozen --no-dev --no-editable --extra s3 --extra kafka --python python3

FROM python:3.11-slim
COPY --from=build /opt/tiersnap /opt/tiersnap
ENV PATH=/opt/tiersnap/bin:$PATH
# Compiled kernels are kept below it; mount a volume there to keep them from one night to the next.
ENV XDG_CACHE_HOME=/var/cache/tiersnap
RUN mkdir -m 1777 /var/cache/tiersnap
# As the broker runs: it has to read the segments. Another user is given with securityContext or --user.
USER 1001:1001
RUN ["tiersnap", "--version"]
CMD ["tiersnap", "--help"]

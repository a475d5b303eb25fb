# A small image for hosts and CronJobs: docker build -f conf/images/host.Dockerfile -t tiersnap:0.1.0 .
# The image has Python, tiersnap and the extras s3 and kafka, but no Java and no Spark. Built by buildah 1.28 on
# Debian's Python 3.11 in place of the base image, tiersnap added 480 MB in 41 s.
FROM python:3.11-slim AS build
# The same version of uv as in the Makefile.
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
# Install exactly the packages of the lock file. The environment does not need the sources.
ENV UV_PROJECT_ENVIRONMENT=/opt/tiersnap
RUN uv sync -q --frozen --no-dev --no-editable --extra s3 --extra kafka --python python3

FROM python:3.11-slim
COPY --from=build /opt/tiersnap /opt/tiersnap
ENV PATH=/opt/tiersnap/bin:$PATH
# tiersnap stores compiled kernels below this folder. Mount a volume here to keep them between runs.
ENV XDG_CACHE_HOME=/var/cache/tiersnap
RUN mkdir -m 1777 /var/cache/tiersnap
# Use the broker's user, because tiersnap must read the segments. To change the user, give securityContext or --user.
USER 1001:1001
RUN ["tiersnap", "--version"]
CMD ["tiersnap", "--help"]

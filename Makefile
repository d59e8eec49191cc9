# The two commands of the README are `make demo` and `make test`.

CARGO ?= cargo

.PHONY: demo test servers check build docs bench clean

# Builds petal, loads a small data set on the embedded default, runs a short sweep, leaves its petals.
demo: build
	./target/release/petal demo

build:
	$(CARGO) build --release --locked

# Everything, the fast first.
test: check servers
	$(CARGO) test --locked --lib
	$(CARGO) test --locked --no-default-features --features sqlite --lib
	$(CARGO) test --locked --test integration

# What tests start privately, from Debian's packages, where it is missing.
servers:
	sh scripts/install-test-servers.sh

# Warnings are errors.
check:
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	$(CARGO) clippy --locked --no-default-features -- -D warnings

# What the driver's loop and the shim cost, in nanoseconds, ratios within one run; AWR reports read
# per second.
bench:
	$(CARGO) bench --locked --bench driver_loop
	$(CARGO) bench --locked --bench awr
	$(CARGO) bench --locked --bench vfs
	$(CARGO) bench --locked --bench watching

# The pages that come from the table of parameters.
docs:
	UPDATE_DOCS=1 $(CARGO) test --locked --lib settings

clean:
	$(CARGO) clean
	rm -rf petal-data petal-results

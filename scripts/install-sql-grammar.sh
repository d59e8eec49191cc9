#!/bin/sh
# Installs the two grammars of Oracle SQL and PL/SQL that check petal's statements, into
# target/sql-grammar: from the npm registry in the versions of tests/sql-grammar/package-lock.json,
# and from PyPI in those of tests/sql-grammar/requirements.txt. If it cannot, it says so and leaves it to the test to skip, or with PETAL_TEST_REQUIRE=all to
# fail.
set -eu
cd "$(dirname "$0")/.."
target=target/sql-grammar

if ! command -v npm >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends nodejs npm || true
fi
if ! command -v npm >/dev/null; then
    echo "npm is not installed: the statements for Oracle are not checked by a grammar" >&2
    exit 0
fi
mkdir -p "$target"
cp tests/sql-grammar/check.py "$target/"
if ! cmp -s tests/sql-grammar/requirements.txt "$target/requirements.txt"; then
    if python3 -m venv "$target/python" &&
        "$target/python/bin/pip" install -q -r tests/sql-grammar/requirements.txt; then
        cp tests/sql-grammar/requirements.txt "$target/"
    else
        echo "python3-venv or PyPI is missing: the second grammar does not check the statements" >&2
    fi
fi
if cmp -s tests/sql-grammar/package-lock.json "$target/package-lock.json" && [ -d "$target/node_modules" ]; then
    cp tests/sql-grammar/check.mjs "$target/"
    exit 0
fi
cp tests/sql-grammar/check.mjs tests/sql-grammar/package.json tests/sql-grammar/package-lock.json "$target/"
npm ci --prefix "$target" --no-audit --no-fund --ignore-scripts ||
    echo "the npm registry gave nothing: the statements for Oracle are not checked by a grammar" >&2

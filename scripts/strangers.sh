#!/bin/sh
# Installs other clients of Oracle in target/strangers, from the registries of their languages, for the
# test of the stand-in that `make strangers` runs. Needs node, npm, go, java, javac, mvn and python3.
set -eu
cd "$(dirname "$0")/.."
target=$(pwd)/target/strangers
mkdir -p "$target"
if ! [ -d "$target/python" ]; then
    python3 -m venv "$target/python"
    "$target/python/bin/pip" install -q oracledb==26.1.0
fi
cp tests/strangers/client.py tests/strangers/client.mjs tests/strangers/package*.json "$target/"
(cd "$target" && npm ci --silent)
(cd tests/strangers/go && go build -o "$target/go-ora" .)
if ! [ -f "$target/ojdbc11.jar" ]; then
    mvn -q dependency:copy -Dartifact=com.oracle.database.jdbc:ojdbc11:23.6.0.24.10 \
        -DoutputDirectory="$target" -Dmdep.stripVersion=true
fi
javac -d "$target" tests/strangers/Client.java

"""Parses files of Oracle SQL and PL/SQL by the grammar of qivo-parseora, for each release that petal supports.

Prints a line `FILE: RELEASE: line N: message` for each error, and exits with 1 if there is one. Statements
that the parser keeps as tokens are no error.
"""

import sys
from pathlib import Path

import parseora

RELEASES = ["12.2", "18c", "19c", "21c", "23ai"]

complaints = 0
for name in sys.argv[1:]:
    text = Path(name).read_text()
    for release in RELEASES:
        for unit in parseora.parse(text, release):
            for error in unit["errors"]:
                complaints += 1
                print(f"{Path(name).name}: {release}: line {error['line']}: {error['message']}")
sys.exit(1 if complaints else 0)

#!/usr/bin/env bash
# Resolve pyproject.toml's bounds in an empty environment and pin what came out: names and versions, nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$python" -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check '.[dev]'
{
  echo "# The versions that the tests run with. \`make constraints\` writes this file anew from pyproject.toml's bounds."
  "$scratch/venv/bin/pip" freeze --exclude genericjob | sort --ignore-case
} > constraints.txt
echo "constraints.txt: $(grep -c == constraints.txt) packages pinned"

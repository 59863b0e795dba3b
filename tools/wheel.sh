#!/usr/bin/env bash
# Builds the wheel and the source distribution into dist/, where they are not those of the present sources already.
set -euo pipefail
cd "$(dirname "$0")/.."
VENV=${VENV:-.venv}
VIRTUAL_ENV=$(cd "$VENV" && pwd)
export VIRTUAL_ENV

content=$(find rust python tools Cargo.toml Cargo.lock pyproject.toml README.md CHANGELOG.md LICENSE -type f \
    ! -name '*.so' ! -name '*.pyc' | LC_ALL=C sort | while IFS= read -r file; do
    printf '%s\n' "$file"
    cat "$file"
done | "$VENV/bin/python" -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())')
if [ "$(cat dist/.sources 2>/dev/null)" = "$content" ] && ls dist/*.whl dist/*.tar.gz >/dev/null 2>&1; then
    exit 0
fi
rm -rf dist
# The interpreter of the environment: cargo's results for it are there already.
"$VENV/bin/maturin" build --release --locked --out dist --interpreter "$VENV/bin/python"
"$VENV/bin/maturin" sdist --out dist
echo "$content" >dist/.sources

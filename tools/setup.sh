#!/usr/bin/env bash
# Makes .venv, installs an extra of the package into it, and puts a release build of the sources there.
#
#     tools/setup.sh EXTRA        # demo, dev, test, bench …: a name under [project.optional-dependencies]
#     tools/setup.sh --rust       # only looks for the Rust tools
#
# What is done already is not done again: packages are installed when pyproject.toml or the interpreter changed, the
# extension is built when its sources changed (compared by content, so switching branches is safe) or when the built
# file is no longer the one that was built from them. PYTHON names the interpreter, VENV the folder.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}

fail() {
    echo "error: $*" >&2
    exit 1
}

check_python() {
    command -v "$PYTHON" >/dev/null ||
        fail "$PYTHON was not found: install Python 3.10 or newer with its venv module, or name another interpreter (make PYTHON=python3.12)"
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
        fail "$PYTHON is $("$PYTHON" --version 2>&1 || echo broken), too old: install Python 3.10 or newer, or name another interpreter (make PYTHON=python3.12)"
    "$PYTHON" -c 'import sys, sysconfig; sys.exit(sys.implementation.name != "cpython" or bool(sysconfig.get_config_var("Py_GIL_DISABLED")))' ||
        fail "$PYTHON is not CPython with the GIL: install that (free-threaded builds and PyPy are not supported yet), or name another interpreter (make PYTHON=python3.12)"
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$PYTHON has no venv module: install it (on Debian and Ubuntu the package python3-venv)"
}

check_rust() {
    local wanted found
    command -v cargo >/dev/null || fail "cargo was not found: install Rust with rustup"
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    found=$(rustc --version | cut -d' ' -f2)
    [ "$(printf '%s\n' "$wanted" "${found%%-*}" | sort -V | head -n 1)" = "$wanted" ] ||
        fail "Rust $found is too old: install $wanted or newer (rustup update)"
    command -v cc >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null ||
        fail "no C compiler was found, which Rust needs to link: install one (on Debian and Ubuntu the package gcc)"
}

checksum() { # of standard input
    "$PYTHON" -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'
}

sources() { # names and contents of what the extension is built from
    find rust/src Cargo.toml Cargo.lock pyproject.toml -type f | LC_ALL=C sort | while IFS= read -r file; do
        printf '%s\n' "$file"
        cat "$file"
    done
    cargo --version
}

make_venv() {
    local version
    version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if [ -d "$VENV" ] && [ "$("$VENV/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" != "$version" ]; then
        echo "$VENV was made with another Python than $version: made anew"
        rm -rf "$VENV"
    fi
    [ -x "$VENV/bin/pip" ] || "$PYTHON" -m venv --clear "$VENV"
}

# Stamps lie in the environment and go with it.
have_extra() { # "test" holds all others
    local name
    for name in "$extra" test; do
        [ "$(cat "$VENV/.extra-$name" 2>/dev/null)" = "$wanted_packages" ] && return 0
    done
    return 1
}

have_build() {
    [ -f python/engram_fast/_core.abi3.so ] &&
        [ "$(cat "$VENV/.built" 2>/dev/null)" = "$wanted_build $(checksum <python/engram_fast/_core.abi3.so)" ]
}

build() { # options of maturin; the tests and benchmarks compare with what the feature "measure" adds, a wheel goes without
    # maturin calls pip, which names every extra that was not asked for.
    PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1 "$VENV/bin/maturin" develop --release --locked --features python,measure "$@" || fail "the build failed; the reason stands above"
    echo "$wanted_build $(checksum <python/engram_fast/_core.abi3.so)" >"$VENV/.built"
}

if [ "${1:-}" = --rust ]; then
    check_rust
    exit 0
fi
extra=${1:?the name of an extra}
check_python
check_rust
make_venv
VIRTUAL_ENV=$(cd "$VENV" && pwd)
export VIRTUAL_ENV
unset CONDA_PREFIX PYTHONHOME
wanted_packages=$(checksum <pyproject.toml)
wanted_build=$(sources | checksum)

pip=("$VENV/bin/python" -m pip --disable-pip-version-check install --quiet)

if [ "$(cat "$VENV/.installed" 2>/dev/null)" != "$wanted_packages" ]; then
    "${pip[@]}" "maturin>=1.9.4,<2" || fail "pip could not install maturin; its reason stands above"
    build
    echo "$wanted_packages" >"$VENV/.installed"
elif ! have_build; then
    build --skip-install
fi
if ! have_extra; then
    echo "installing the packages of the extra \"$extra\" into $VENV"
    # Of the package itself, which is there, pip takes the metadata only; maturin cannot resolve an extra of extras.
    "${pip[@]}" "engram-fast[$extra]" || fail "pip could not install the packages of the extra \"$extra\"; its reason stands above"
    echo "$wanted_packages" >"$VENV/.extra-$extra"
fi

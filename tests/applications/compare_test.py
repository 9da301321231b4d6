"""The comparison of ./dev applications, and the table it writes."""
import pathlib
import tempfile
import types

import numpy as np

import compare
import table


def differs(got, want, rtol=1e-5, atol=1e-6):
    return compare.compare_leaf(np.asarray(got), np.asarray(want), rtol, atol) is not None


def check_leaves():
    x = np.linspace(-2, 2, 9, dtype=np.float32)
    assert not differs(x, x)
    assert not differs(x * (1 + 1e-6), x)
    assert differs(x + np.float32(1e-3), x)
    assert differs(x.astype(np.float64), x), "another type"
    assert differs(x[:8], x), "another shape"
    assert differs([True, False], [True, True])
    assert differs(np.int32(7), np.int32(8)), "integers are exact"
    assert differs([1.0, np.nan], [1.0, 2.0]) and differs([1.0, 2.0], [1.0, np.nan]) and not differs([1.0, np.nan], [1.0, np.nan])
    assert differs([np.inf], [-np.inf]) and differs([np.inf], [1.0]) and not differs([np.inf, 1.0], [np.inf, 1.0])
    assert differs([1 + 1e-3j], [1 + 0j]) and not differs([1 + 1e-8j], [1 + 0j])
    assert differs([1e-5], [0.0]) and not differs([1e-7], [0.0]), "atol is absolute"
    assert not differs([1000.001, 0.004], [1000.0, 0.0]), "rtol is of the leaf's largest value"
    assert not differs(np.zeros((0, 3)), np.zeros((0, 3)))


def check_files():
    workload = types.SimpleNamespace(rtol=1e-5, atol=1e-6)
    with tempfile.TemporaryDirectory() as folder:
        def save(name, **leaves):
            np.savez(f"{folder}/{name}.npz", **leaves)
            return np.load(f"{folder}/{name}.npz")
        a, b, c, empty = save("a", x=np.ones(3), n=np.int32(4)), save("b", x=np.ones(3), n=np.int32(5)), save("c", x=np.ones(3)), save("empty")
        assert compare.compare(a, a, workload) == []
        assert compare.compare(b, a, workload) == ["n: 1 of 1 values differ"]
        assert "results" in compare.compare(c, a, workload)[0], "a result is missing"
        assert compare.compare(empty, empty, workload) == ["no results"]
        assert compare.largest_error(save("d", x=np.full(3, 1.5), n=np.int32(4)), a) == 0.5


def check_table():
    rows = [{"name": "one", "library": "lib", "result": "agrees", "error": 2e-6, "first": 0.5, "steady": 2.0, "memory": 0.8}, {"name": "two", "library": "lib", "result": "crash"}]
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.md"
        page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
        table.write(page, rows)
        text = page.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    assert "| one | lib | yes | 2e-06 | 0.50 | **2.00** | 0.80 |" in text and "| two | lib | **crash** |" in text and "1 of 2" in text


if __name__ == "__main__":
    check_leaves()
    check_files()
    check_table()
    print("3 passed, 0 failed")

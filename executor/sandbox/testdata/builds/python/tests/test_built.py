import concurrent.futures
import multiprocessing
import pathlib
import sqlite3

from built import twice


def test_processes():
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=there.send, args=(2,))
    child.start()
    assert twice(here.recv()) == 4
    child.join()


def test_threads():
    with concurrent.futures.ThreadPoolExecutor() as threads:
        assert list(threads.map(twice, range(3))) == [0, 2, 4]


def test_files(tmp_path: pathlib.Path):
    path = tmp_path / "f"
    path.write_text("x")
    path.chmod(0o600)
    assert sqlite3.connect(tmp_path / "db").execute("pragma journal_mode=wal").fetchone() == ("wal",)

"""Tests that every loader passes.

The tests of a loader inherit `ObjectTests` or `PickleTests`, or `FileTests` once for each file format that it
reads, and say what its models are, how its library predicts, and what a file of it looks like. A new check of
all loaders is a new method here.
"""

from __future__ import annotations

import json
import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import joblib
import numpy as np
import pytest

from effort import FULL, cases
from loading import assert_same, memory_below, printed_without, reading_below, refused
from predgap import _files
from predgap._model.ensemble import LEAF, NUMERIC, Ensemble
from predgap.errors import LoaderError, UnsupportedModelError
from predgap.loaders import load, translation


class ObjectTests:
    """An object of a library loads as what the library predicts."""

    models: ClassVar[Mapping[str, Callable[[], Any]]]
    """By name: makes a fitted model. Small ones, of all kinds that differ in a file."""

    parameters: ClassVar[dict[str, str]] = {"name": "models"}

    def assert_agrees(self, model: Any, ensemble: Ensemble) -> None:
        """The ensemble predicts what the library predicts."""
        raise NotImplementedError

    @classmethod
    def pytest_generate_tests(cls, metafunc: pytest.Metafunc) -> None:
        for argument, attribute in cls.parameters.items():
            if argument in metafunc.fixturenames:
                metafunc.parametrize(argument, list(getattr(cls, attribute)))

    @classmethod
    @cache
    def model(cls, name: str) -> Any:
        return cls.models[name]()

    def test_predictions_are_those_of_the_library(self, name: str) -> None:
        self.assert_agrees(self.model(name), load(self.model(name)))


class PickleTests(ObjectTests):
    """And so does a pickle of it, for those who ask for that."""

    def test_a_pickle_holds_the_same_model(self, name: str, tmp_path: Path) -> None:
        model, path = self.model(name), tmp_path / "model.pkl"
        path.write_bytes(pickle.dumps(model))
        refused(path, "pickle", UnsupportedModelError)
        assert_same(load(path, allow_pickle=True), load(model))
        joblib.dump(model, tmp_path / "model.joblib")
        refused(tmp_path / "model.joblib", "pickle", UnsupportedModelError)
        assert_same(load(tmp_path / "model.joblib", allow_pickle=True), load(model))


class Damaged(NamedTuple):
    """A sound file, the same with one damage, and what is said about it."""

    sound: bytes
    damaged: bytes
    says: str | None = None


class Bomb(NamedTuple):
    """A file that would need far more memory than its size, and what is said about it."""

    data: bytes
    says: str | None = None
    times: float = 16.0  # as much memory as a malicious file may take, in sizes of the file
    more: int = 0  # bytes of memory beyond that


class FileTests(PickleTests):
    """A file loads as its object does, without its library; any other file is refused, at little cost."""

    suffix: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    """What need not be installed to load a file."""

    damage: ClassVar[Iterable[str]] = ()
    """Names of what `damaged` can do to a file."""

    bombs: ClassVar[Mapping[str, Callable[[], Bomb]]] = {}

    parameters: ClassVar[dict[str, str]] = {"name": "models", "kind": "damage", "bomb": "bombs"}

    outcomes: ClassVar[tuple[str, ...]] = ("loaded", "LoaderError")
    """What must happen to some of the mutated files."""

    mutants: ClassVar[tuple[int, int]] = (400, 4000)
    """Mutated files of each model: in `make test` and in `make test-all`."""

    step: ClassVar[int] = 7
    """Every so many bytes a file is cut, in `make test-all`; in `make test` at some 150 places."""

    ends: ClassVar[bool] = True
    """Is a file refused that goes on after the model?"""

    reads_nonsense: ClassVar[bool] = False
    """Is a long file read whole to see that it is none? If so, it takes up to sixteen times its size."""

    nonsense: ClassVar[tuple[int, int]] = (1 << 23, 1 << 26)
    """Bytes of such a file: in `make test` and in `make test-all`."""

    large_memory: ClassVar[float] = 16.0
    """Memory that a sound file may take, in sizes of the file."""

    # ---- what a loader says of its files ----

    def save(self, model: Any, path: Path) -> None:
        raise NotImplementedError

    def decode(self, data: bytes) -> Ensemble:
        """What the loader makes of the bytes of a file, whatever they begin with."""
        raise NotImplementedError

    def large(self) -> Any:
        """A model whose file has at least 50,000 bytes."""
        raise NotImplementedError

    def bytes_of(self, model: Any, folder: Path) -> bytes:
        """A file to cut and to mutate: as it is saved, but for what makes it long and does not matter."""
        path = folder / f"small{self.suffix}"
        self.save(model, path)
        return path.read_bytes()

    def cut(self, data: bytes, end: int) -> Iterable[bytes]:
        """What a file may look like that stops there."""
        return (data[:end],)

    def essential(self, data: bytes) -> int:
        """How many bytes of a file must be there."""
        return len(data)

    def mutated(self, data: bytes, rng: np.random.Generator) -> bytes:
        return mutated_bytes(data, rng)

    def disguised(self, data: bytes) -> Iterable[bytes]:
        """Files in which the loader meets these bytes where it looks for something else."""
        return ()

    def openings(self, data: bytes) -> Iterable[bytes]:
        """How files begin that go on with nonsense."""
        return (data[:100],)

    def damaged(self, kind: str, folder: Path) -> Damaged:
        raise NotImplementedError

    # ---- sound files ----

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / f"model{self.suffix}"

    def small(self, name: str, folder: Path) -> bytes:
        return self.bytes_of(self.model(name), folder)

    def test_a_file_holds_the_same_model(self, name: str, tmp_path: Path) -> None:
        path = tmp_path / f"modèle 1{self.suffix}"
        self.save(self.model(name), path)
        ensemble = load(path)
        assert_same(ensemble, load(self.model(name)))
        assert_same(load(str(path)), ensemble)
        other = tmp_path / "of another name"
        path.rename(other)
        assert_same(load(other, allow_pickle=True), ensemble)
        self.assert_agrees(self.model(name), ensemble)

    def test_files_load_without_the_library(self, tmp_path: Path) -> None:
        for place, name in enumerate(self.models):
            self.save(self.model(name), tmp_path / f"{place}{self.suffix}")
        code = f"""
            import pickle
            from pathlib import Path
            from predgap.loaders import load
            for place in range({len(self.models)}):
                Path(f"{{place}}.pkl").write_bytes(pickle.dumps(load(f"{{place}}{self.suffix}")))
            print("done", *(name for name in {self.packages} if sys.modules.get(name)))
        """
        assert printed_without(self.packages, code, tmp_path) == "done"
        for place, name in enumerate(self.models):
            found = pickle.loads((tmp_path / f"{place}.pkl").read_bytes())
            assert_same(found, load(self.model(name)))

    def test_a_large_file_is_read_once_within_bounds(self, path: Path) -> None:
        self.save(self.large(), path)
        size = path.stat().st_size
        assert size >= 50_000
        load(path)  # the first call imports what it needs
        with reading_below(2 * size):
            load(path)
        with memory_below(int(self.large_memory * size)):
            load(path)

    # ---- files that stop, or go on ----

    def test_every_truncation_is_refused(self, name: str, path: Path, tmp_path: Path) -> None:
        data = self.small(name, tmp_path)
        whole = self.essential(data)
        step = self.step if FULL else max(self.step, whole // 150 | 1)
        for end in (*range(0, whole, step), whole - 1):
            for short in self.cut(data, end):
                path.write_bytes(short)
                refused(path)
                with pytest.raises(LoaderError):
                    self.decode(short)
        path.write_bytes(data)
        assert_sound(load(path))

    def test_a_file_that_goes_on_is_refused(self, name: str, path: Path, tmp_path: Path) -> None:
        data = self.small(name, tmp_path)
        for other in (data + data, data[:-50] + data[-1:], data + b"nonsense" + data[-1:]):
            path.write_bytes(other)
            if self.ends:
                refused(path)
            else:
                loads_or_refuses(load, path)

    # ---- damaged files ----

    def test_damage_is_refused(self, kind: str, path: Path, tmp_path: Path) -> None:
        sound, damaged, says = self.damaged(kind, tmp_path)
        path.write_bytes(sound)
        assert_sound(load(path))
        assert damaged != sound
        path.write_bytes(damaged)
        refused(path, says)

    def test_mutated_files_load_or_are_refused(self, name: str, path: Path, tmp_path: Path) -> None:
        data = self.small(name, tmp_path)
        rng = np.random.default_rng(11)
        found: Counter[str] = Counter()
        for i in range(n := cases(*self.mutants)):
            changed = self.mutated(data, rng)
            found[loads_or_refuses(self.decode, changed)] += 1
            if i % 10 == 0:
                path.write_bytes(changed)
                loads_or_refuses(load, path)
        assert all(found[outcome] for outcome in self.outcomes), found  # neither all nor nothing is refused
        assert found["loaded"] < n, found

    # ---- anything at all ----

    def test_any_bytes_are_refused(self, path: Path) -> None:
        rng = np.random.default_rng(0)
        for size in range(0, 300, cases(3, 1)):
            data = rng.bytes(size)
            for other in (data, *self.disguised(data)):
                with pytest.raises(LoaderError):
                    self.decode(other)
                path.write_bytes(other)
                refused(path)

    def test_gigabytes_of_nonsense_are_refused_at_once(self, path: Path, tmp_path: Path) -> None:
        first = self.small(next(iter(self.models)), tmp_path)
        for opening in (b"", b"nonsense", *self.openings(first)):
            path.write_bytes(opening)
            os.truncate(path, 1 << 40)  # sparse: takes no room on the disk
            with memory_below(1 << 20), reading_below(1 << 20):
                refused(path)
            size = cases(*self.nonsense) if self.reads_nonsense else _files.MAX_FILE_BYTES
            os.truncate(path, size)
            with memory_below(16 * size if self.reads_nonsense else 1 << 20), reading_below(2 * size):
                refused(path)

    def test_what_would_blow_up_in_memory_is_refused(self, bomb: str, path: Path) -> None:
        data, says, times, more = self.bombs[bomb]()
        path.write_bytes(data)
        with memory_below(int(times * len(data)) + more):
            refused(path, says)


# ---- what the tests share ----


def assert_sound(ensemble: Ensemble) -> None:
    """An ensemble that can be used."""
    ensemble.validate()
    assert ((ensemble.feature == LEAF) | (ensemble.feature < ensemble.n_features)).all()
    if ensemble.n_features <= 1000:
        assert len(ensemble.predict(np.repeat([[0.0], [1.0], [np.nan]], ensemble.n_features, axis=1))) == 3
        leaf = ensemble.feature == LEAF
        within = np.abs(ensemble.threshold[~leaf]).max(initial=0.0) < np.finfo(np.float32).max
        if within and (ensemble.category_set[leaf] == NUMERIC).all():  # predgap's own files may have others
            assert np.isfinite(ensemble.predict(translation.rows_at_thresholds(ensemble, 16))).all()


def loads_or_refuses(decode: Callable[[Any], Ensemble], source: Any) -> str:
    """What becomes of a file: a sound ensemble, or an error of ours that says something short."""
    try:
        ensemble = decode(source)
    except LoaderError as error:
        kind, said = type(error).__name__, str(error)
    else:
        assert_sound(ensemble)
        return "loaded"
    assert 0 < len(said) < 1000
    assert "disagrees" not in said  # what is not understood is refused by name
    return kind


TELLING = (b"[", b"]", b"{", b"}", b",", b'"', b"-", b"1e999", b"9" * 400, b"null", b"true", b"NaN", b"\xff")
NUMBERS = (0, 1, 2, 4, 8, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1)


def mutated_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes are changed, removed, doubled, put in or put elsewhere; or a word is another number."""
    out = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        at, size = int(rng.integers(len(out) + 1)), int(rng.integers(1, 20))
        word, order = at // 4 * 4, ("little", "big")[int(rng.integers(2))]
        old = int.from_bytes(out[word : word + 4], order)
        near = old + int(rng.integers(-3, 4)) * int(rng.choice([1, 4]))
        number = int(rng.choice([*NUMBERS, len(out), at, int(rng.integers(100)), near % 2**32]))
        match rng.integers(9):
            case 0:
                out[at : at + 1] = bytes(byte ^ 1 << int(rng.integers(8)) for byte in out[at : at + 1])
            case 1:
                out[at : at + int(rng.integers(5))] = rng.bytes(int(rng.integers(5)))
            case 2:
                out[at : at + int(rng.integers(5))] = TELLING[rng.integers(len(TELLING))]
            case 3:
                out[word : word + 4] = number.to_bytes(4, order)
            case 4:
                out[at : at + 2] = (number % 2**16).to_bytes(2, order)
            case 5:
                other = int(rng.integers(len(out) + 1))
                out[at : at + size] = out[other : other + size]
            case 6:
                out[at:at] = out[at : at + int(rng.integers(200))]
            case 7:
                del out[at : at + size]
            case _:  # small changes of a number, which are more likely to be valid
                step = int(rng.integers(-2, 3))
                out[at : at + 1] = bytes(min(255, max(0, byte + step)) for byte in out[at : at + 1])
    return bytes(out)


OTHERS: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2, 3, 3.5, 1e308, -1e39, 2**31, 10**30, "", "x", "AsTrue"),
    *([], {}, [[]], [0.5] * 8, -0.0, float("nan"), float("inf")),
)


def mutated_document(document: Any, rng: np.random.Generator) -> Any:
    """The document, in which one value somewhere is another one, or gone, or twice there."""
    at: Any = document
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = keys[rng.integers(len(keys))]
        if not isinstance(at[key], dict | list) or not at[key] or rng.random() < 0.1:
            break
        at = at[key]
    choice = rng.integers(len(OTHERS) + 2)
    if choice < len(OTHERS):
        at[key] = OTHERS[choice]
    elif choice == len(OTHERS):
        del at[key]
    elif isinstance(at, list):
        at.append(at[key])
    else:
        at["new"] = at[key]
    return document


def mutated_json(data: bytes, rng: np.random.Generator) -> bytes:
    """A document with other bytes, or with other values."""
    if rng.random() < 0.5:
        return mutated_bytes(data, rng)
    return json.dumps(mutated_document(json.loads(data), rng)).encode()


def json_bombs(key: str) -> dict[str, Callable[[], Bomb]]:
    """Documents of nothing but small lists and objects, under a key that a model begins with."""
    texts = {"lists": "[]," * 300_000, "objects": '{"a":{}},' * 100_000, "nested": "[[[[[]]]]]," * 100_000}
    return {
        f"small {kind}": lambda text=text: Bomb(f'{{"{key}":[{text}0]}}'.encode(), "far more lists", 4)
        for kind, text in texts.items()
    }


def deep_json(*openings: str) -> dict[str, Callable[[], Bomb]]:
    """Documents of a hundred thousand levels."""
    padding = " " * 2_000_000  # so that the number of brackets alone does not give it away
    return {
        f"deep {nest} in {opening}": lambda opening=opening, nest=nest: Bomb(
            f"{opening}{padding}{nest * 100_000}}}".encode(), "JSON"
        )
        for opening in openings
        for nest in ("[", '{"left":', "[[1],")
    }

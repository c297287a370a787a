"""Data sets: files are found, fetched, checked and cleaned, or refused with a reason; splits are sound.

Downloads run against a real server on the loopback interface.
"""

from __future__ import annotations

import hashlib
import io
import json
import socket
import subprocess
import sys
import threading
import zipfile
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from predgap import DependencyError, PredgapError
from reproduction import data as datasets
from reproduction.data import (
    NAMES,
    SOURCES,
    Dataset,
    Download,
    load_dataset,
    load_published_split,
    split,
)
from reproduction.helpers import DatasetError

HEADER = '"' + '";"'.join(SOURCES["wine"].columns) + '"\n'
N_ROWS = 4000


def wine_file(n_rows=N_ROWS):
    rng = np.random.default_rng(0)
    rows = (";".join(f"{value:.4f}" for value in row) for row in rng.random((n_rows, 12)))
    return (HEADER + "\n".join(rows) + "\n").encode()


CONTENT = wine_file()


def zipped(**members):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return archive.getvalue()


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """No data folder of the user, and no proxy, has a say in these tests."""
    monkeypatch.delenv("PREDGAP_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")


def refusal(call, *words):
    with pytest.raises(DatasetError) as caught:
        call()
    text = str(caught.value)
    assert isinstance(caught.value, PredgapError)
    assert all(word in text for word in words), text
    return text


# ---- download ------------------------------------------------------------------------------------


@dataclass
class Site:
    """What the server answers with, by path: a status and a content; and which paths it was asked for."""

    port: int = 0
    answers: dict = field(default_factory=dict)
    asked: list = field(default_factory=list)

    def url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"


@pytest.fixture
def site():
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            site.asked.append(self.path)
            code, content, *length = site.answers[self.path]
            self.send_response(code)
            self.send_header("Content-Length", str(*length or (len(content),)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def wine(site, monkeypatch):
    """Set the addresses of the wine data: wine("/a.csv", "/b.zip"); its file has CONTENT."""

    def set_downloads(*paths, content=CONTENT):
        downloads = [
            Download(site.url(path), "winequality-red.csv" if path.endswith(".zip") else None)
            for path in paths
        ]
        source = replace(
            SOURCES["wine"], downloads=tuple(downloads), sha256=hashlib.sha256(content).hexdigest()
        )
        monkeypatch.setattr(datasets, "SOURCES", {**SOURCES, "wine": source})

    set_downloads("/wine.csv")
    return set_downloads


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_download_is_kept_and_not_repeated(site, wine, tmp_path, capfd):
    site.answers["/wine.csv"] = (200, CONTENT)
    dataset = load_dataset("wine", data_dir=tmp_path / "new" / "data")
    assert dataset.X.shape == (N_ROWS, 11)
    assert dataset.sha256 == hashlib.sha256(CONTENT).hexdigest()
    assert (tmp_path / "new" / "data" / "winequality-red.csv").read_bytes() == CONTENT
    assert files(tmp_path / "new" / "data") == ["winequality-red.csv"]
    load_dataset("wine", data_dir=tmp_path / "new" / "data")
    assert site.asked == ["/wine.csv"]
    assert capfd.readouterr() == ("", "")


def test_a_download_is_told_on_a_terminal(site, wine, tmp_path, capsys, monkeypatch):
    site.answers["/wine.csv"] = (200, CONTENT)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    load_dataset("wine", data_dir=tmp_path)
    assert capsys.readouterr() == ("", f"downloading {site.url('/wine.csv')}\n")


def test_the_next_address_is_tried(site, wine, tmp_path):
    wine("/gone.zip", "/other.csv", "/broken.csv", "/wine.csv", "/unused.csv")
    site.answers |= {"/gone.zip": (404, b""), "/other.csv": (200, b"other")}
    site.answers |= {"/broken.csv": (200, CONTENT[:1000], len(CONTENT)), "/wine.csv": (200, CONTENT)}
    assert len(load_dataset("wine", data_dir=tmp_path)) == N_ROWS
    assert site.asked == ["/gone.zip", "/other.csv", "/broken.csv", "/wine.csv"]
    assert files(tmp_path) == ["winequality-red.csv"]


@pytest.mark.parametrize(
    ("path", "answer", "words"),
    [
        ("/wine.csv", (404, b""), "answered 404 Not Found"),
        ("/wine.csv", (503, b""), "answered 503"),
        ("/wine.csv", (200, b"<html>sign in first</html>"), "served another file than the one with SHA-256"),
        ("/wine.csv", (200, CONTENT[:1000], len(CONTENT)), "broke off before the end"),
        ("/wine.zip", (200, b"not a zip"), "did not serve a sound zip archive"),
        ("/wine.zip", (200, zipped(**{"winequality-red.csv": CONTENT})[:-30]), "sound zip archive"),
        ("/wine.zip", (200, zipped(**{"../winequality-red.csv": CONTENT})), "an archive without 'wineq"),
        ("/wine.zip", (200, zipped(**{"winequality-red.csv": CONTENT[1:]})), "served another file"),
    ],
)
def test_what_is_not_the_file_is_refused_and_leaves_nothing(site, wine, tmp_path, path, answer, words):
    wine(path)
    site.answers[path] = answer
    refusal(
        lambda: load_dataset("wine", data_dir=tmp_path / "data"),
        "'wine' is not at hand and could not be downloaded",
        f"{site.url(path)} ",
        words,
    )
    assert files(tmp_path) == ["data"]
    assert files(tmp_path / "data") == []


@pytest.mark.parametrize(
    ("path", "content"), [("/wine.csv", CONTENT), ("/wine.zip", zipped(**{"winequality-red.csv": CONTENT}))]
)
def test_a_file_that_is_too_long_is_refused(site, wine, tmp_path, monkeypatch, path, content):
    monkeypatch.setattr(datasets, "_MAX_BYTES", len(CONTENT) - 1)
    wine(path)
    site.answers[path] = (200, content)
    refusal(lambda: load_dataset("wine", data_dir=tmp_path), f"more than {len(CONTENT) - 1} bytes")
    assert files(tmp_path) == []


def test_all_addresses_that_failed_are_named(site, wine, tmp_path):
    wine("/gone.zip", "/other.csv")
    site.answers |= {"/gone.zip": (404, b""), "/other.csv": (200, b"other")}
    refusal(
        lambda: load_dataset("wine", data_dir=tmp_path), "/gone.zip answered 404", "/other.csv served another"
    )


def test_a_silent_server_times_out(site, wine, tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "_TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        site.port = silent.getsockname()[1]
        wine("/wine.csv")
        refusal(lambda: load_dataset("wine", data_dir=tmp_path), "did not answer for 0.1 s")


def test_the_file_is_taken_out_of_an_archive(site, wine, tmp_path):
    wine("/wine.zip")
    archive = zipped(**{"winequality.names": b"about", "winequality-red.csv": CONTENT})
    site.answers["/wine.zip"] = (200, archive)
    assert len(load_dataset("wine", data_dir=tmp_path)) == N_ROWS
    assert files(tmp_path) == ["winequality-red.csv"]
    assert (tmp_path / "winequality-red.csv").read_bytes() == CONTENT


def test_a_data_dir_that_is_a_file_is_named(site, wine, tmp_path):
    (tmp_path / "plain").write_text("")
    refusal(lambda: load_dataset("wine", data_dir=tmp_path / "plain"), "cannot be written", "plain")


def test_without_pooch_it_says_what_to_install(wine, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DependencyError, match=r"needs pooch.*pip install pooch"):
        load_dataset("wine", data_dir=tmp_path)


# ---- where files are -----------------------------------------------------------------------------


def put(path, content=CONTENT):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_offline_and_absent_says_where_to_put_what(wine, tmp_path, monkeypatch):
    source = replace(SOURCES["wine"], downloads=(Download("http://127.0.0.1:9/wine.csv"),))  # discard port
    monkeypatch.setattr(datasets, "SOURCES", {"wine": source})
    refusal(
        lambda: load_dataset("wine", data_dir=tmp_path / "mine"),
        "'wine' is not at hand and could not be downloaded",
        "http://127.0.0.1:9/wine.csv cannot be reached",
        f"Put winequality-red.csv (SHA-256 {source.sha256}) from {source.page}",
        str(tmp_path / "mine"),
        "PREDGAP_DATA",
        "winequality_red.csv",
        str(tmp_path / "cache" / "predgap"),
    )


@pytest.mark.parametrize("name", SOURCES)
def test_without_download_nothing_is_fetched_or_made(tmp_path, name):
    folder = tmp_path / "mine"
    refusal(
        lambda: load_dataset(name, data_dir=folder, download=False),
        "download=False",
        SOURCES[name].file,
        SOURCES[name].sha256,
        SOURCES[name].page,
        str(folder),
    )
    assert not folder.exists()


@pytest.mark.parametrize("file", ["winequality-red.csv", "winequality_red.csv"])
@pytest.mark.parametrize("folder", ["", "raw"])
def test_both_layouts_and_names_are_found(wine, tmp_path, folder, file):
    put(tmp_path / folder / file)
    assert len(load_dataset("wine", data_dir=str(tmp_path), download=False)) == N_ROWS


def test_folders_are_looked_in_in_order(wine, tmp_path, monkeypatch):
    argument, variable, cache = tmp_path / "argument", tmp_path / "variable", tmp_path / "cache" / "predgap"
    put(cache / "winequality-red.csv")
    assert len(load_dataset("wine", download=False)) == N_ROWS
    monkeypatch.setenv("PREDGAP_DATA", str(variable))
    assert datasets.data_folders(argument) == (argument, variable, cache)
    assert len(load_dataset("wine", data_dir=argument, download=False)) == N_ROWS
    put(variable / "raw" / "winequality_red.csv", b"damaged")
    refusal(lambda: load_dataset("wine", data_dir=argument, download=False), str(variable), "SHA-256")
    put(argument / "winequality-red.csv")
    assert len(load_dataset("wine", data_dir=argument, download=False)) == N_ROWS


@pytest.mark.parametrize("first", ["argument", "variable", "cache"])
def test_downloads_go_to_the_first_folder(site, wine, tmp_path, monkeypatch, first):
    site.answers["/wine.csv"] = (200, CONTENT)
    if first != "cache":
        monkeypatch.setenv("PREDGAP_DATA", str(tmp_path / "variable"))
    load_dataset("wine", data_dir=tmp_path / "argument" if first == "argument" else None)
    found = [path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("winequality-red.csv")]
    assert found == [first]


def test_an_empty_variable_is_no_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PREDGAP_DATA", "")
    assert datasets.data_folders() == (tmp_path / "cache" / "predgap",)


def test_a_tilde_is_the_home_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert datasets.data_folders("~/data")[0] == tmp_path / "data"


@pytest.mark.parametrize("xdg", [None, "", "relative/cache"])
@pytest.mark.parametrize(
    ("platform", "folder"),
    [("linux", ".cache/predgap"), ("darwin", "Library/Caches/predgap"), ("win32", "local/predgap/Cache")],
)
def test_the_cache_is_where_the_system_has_caches(tmp_path, monkeypatch, platform, folder, xdg):
    if xdg is None:
        monkeypatch.delenv("XDG_CACHE_HOME")
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert datasets.cache_dir() == tmp_path / folder


def test_a_user_without_home_needs_a_folder(tmp_path, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr(sys, "platform", "linux")
    assert datasets.data_folders(tmp_path) == (tmp_path,)
    refusal(lambda: load_dataset("wine"), "no home directory", "PREDGAP_DATA")


def test_a_damaged_file_of_the_user_is_reported_and_kept(site, wine, tmp_path):
    put(tmp_path / "winequality-red.csv", CONTENT.replace(b"\n", b"\r\n"))
    refusal(
        lambda: load_dataset("wine", data_dir=tmp_path),
        str(tmp_path / "winequality-red.csv"),
        hashlib.sha256(CONTENT).hexdigest(),
        hashlib.sha256(CONTENT.replace(b"\n", b"\r\n")).hexdigest(),
        "remove it",
    )
    assert (tmp_path / "winequality-red.csv").exists()
    assert site.asked == []


@pytest.mark.parametrize("name", ["win", "", "Wine", "iris"])
def test_an_unknown_name_is_refused(name):
    refusal(lambda: load_dataset(name), f"no data set {name!r}", *NAMES)


# ---- content -------------------------------------------------------------------------------------

ROW = "7.4;0.7;0;1.9;0.076;11;34;0.9978;3.51;0.56;9.4;5\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["Empty CSV file"]),
        (HEADER.encode(), ["no rows"]),
        (ROW.encode() * 2, ["header", "'7.4'", "expected 'fixed acidity'"]),
        (HEADER.replace(";", ",").encode() + ROW.encode(), ["row 2", "Expected 1 columns, got 12"]),
        (HEADER.replace('"pH"', '"PH"').encode() + ROW.encode(), ["header", "'pH'"]),
        ((HEADER + ROW + "1;2;3\n").encode(), ["row 3", "Expected 12 columns, got 3"]),
        ((HEADER + ROW + ROW.replace(";5", ";5;6")).encode(), ["row 3", "got 13"]),
        ((HEADER + ROW + ROW.replace("7.4", "high")).encode(), ["row 3", "'fixed acidity'", "'high'"]),
        ((HEADER + ROW.replace("0.076", "inf")).encode(), ["row 2", "'chlorides'", "not a finite number"]),
        ((HEADER + ROW.replace("0.076", "NaN")).encode(), ["row 2", "'chlorides'", "not a finite number"]),
        ((HEADER + ROW.replace("0.076", "1_0")).encode(), ["row 2", "'chlorides'", "'1_0'"]),
        ((HEADER + ROW.replace("0.076", "1e999")).encode(), ["row 2", "'chlorides'", "not a finite"]),
        (b"\xff" + HEADER.encode() + ROW.encode(), ["not text in UTF-8"]),
        (HEADER.encode() + b"\xff\xfe", ["row 2", "Expected 12 columns"]),
        ((HEADER + '"7.4;0.7\n').encode(), ["row 2", "Expected 12 columns"]),
        ((HEADER + "7" * 200_000 + "\n").encode(), ["row 2", "Expected 12 columns"]),
    ],
)
def test_malformed_files_are_refused(wine, tmp_path, content, words):
    wine("/wine.csv", content=content)
    put(tmp_path / "winequality-red.csv", content)
    refusal(lambda: load_dataset("wine", data_dir=tmp_path), *words)


def test_incomplete_rows_are_dropped_and_counted(wine, tmp_path):
    content = (
        "\ufeff" + HEADER + ROW + ROW.replace("0.7;", ";", 1) + "\n" + ROW.replace(";5", ";") + ROW
    ).encode()
    wine("/wine.csv", content=content)
    put(tmp_path / "winequality-red.csv", content)
    dataset = load_dataset("wine", data_dir=tmp_path)
    assert len(dataset) == 2


# ---- the real files ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "n", "d", "target"),
    [
        ("wine", 1599, 11, "quality"),
        ("housing", 20433, 8, "median_house_value"),
        ("telemetry", 5875, 17, "motor_UPDRS"),
    ],
)
def test_the_papers_data_sets(shared_data, name, n, d, target):
    dataset = load_dataset(name, data_dir=shared_data, download=False)
    assert dataset.X.shape == (n, d)
    assert not set(dataset.feature_names) & {
        "ocean_proximity",
        "subject#",
        "age",
        "sex",
        "total_UPDRS",
        target,
    }


@pytest.mark.parametrize("name", SOURCES)
def test_names_of_features_are_those_of_the_saved_models(shared_data, name):
    stem = SOURCES[name].stem
    model = json.loads((shared_data / "models" / f"{stem}.json").read_text())
    names = tuple(model["learner"]["feature_names"])
    assert load_published_split(name, shared_data).test.feature_names == names
    assert load_dataset(name, data_dir=shared_data).model_names == names


@pytest.mark.parametrize("name", ["wine", "telemetry", "housing"])
def test_published_splits_are_the_raw_data_standardised(shared_data, name):
    dataset = load_dataset(name, data_dir=shared_data)
    published = load_published_split(name, shared_data)
    scaled = np.column_stack([(dataset.X - published.mean) / published.scale, dataset.y])
    order = np.lexsort(scaled.T)
    train = published.train if published.train is not None else published.complement(dataset)
    parts = np.vstack([np.column_stack([part.X, part.y]) for part in (train, published.test)])
    np.testing.assert_allclose(parts[np.lexsort(parts.T)], scaled[order], rtol=0, atol=1e-12)
    assert len(published.test) == int(np.ceil(0.2 * len(dataset)))
    assert (published.train is None) == (name == "housing")


@pytest.mark.parametrize("name", ["wine", "telemetry", "housing"])
def test_published_scaling_is_that_of_the_whole_data_set(shared_data, name):
    dataset = load_dataset(name, data_dir=shared_data)
    published = load_published_split(name, shared_data)
    np.testing.assert_allclose(published.mean, dataset.X.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(published.scale, dataset.X.std(axis=0), rtol=1e-12)


@pytest.mark.parametrize("name", ["wine", "telemetry"])
def test_the_complement_is_the_published_training_part(shared_data, name):
    published = load_published_split(name, shared_data)
    rest = published.complement(load_dataset(name, data_dir=shared_data))
    assert rest.feature_names == published.train.feature_names
    found, expected = (np.column_stack([part.X, part.y]) for part in (rest, published.train))
    np.testing.assert_array_equal(found[np.lexsort(found.T)], expected[np.lexsort(expected.T)])


# ---- published splits ----------------------------------------------------------------------------

MODEL_NAMES = ",".join(map(datasets.model_name, SOURCES["housing"].features))
HOUSING = f"{MODEL_NAMES},median_house_value\n0,0,0,0,0,0,0,0,5\n1,1,1,1,1,1,1,1,6\n"
PARAMS = f",{MODEL_NAMES}\nmean{',10' * 8}\nvariance{',4' * 8}\n"


def published(folder, test=HOUSING, params=PARAMS, train=None):
    texts = {"test_housing_scaled": test, "housing_scaling_params": params, "train_housing_scaled": train}
    for file, text in texts.items():
        if text is not None:
            put(folder / f"{file}.csv", text.encode())


@pytest.mark.parametrize("folder", ["", "splits"])
def test_published_splits_are_found_in_both_layouts(tmp_path, monkeypatch, folder):
    published(tmp_path / folder, train=HOUSING)
    monkeypatch.setenv("PREDGAP_DATA", str(tmp_path))
    found = load_published_split("housing")
    assert found.test.X.tolist() == [[0.0] * 8, [1.0] * 8]
    assert found.test.y.tolist() == found.train.y.tolist() == [5.0, 6.0]
    assert (found.mean.tolist(), found.scale.tolist()) == ([10.0] * 8, [2.0] * 8)


def housing_rows(*values):
    X = np.repeat(np.array(values, dtype=float)[:, None], 8, axis=1)
    features = SOURCES["housing"].features
    return Dataset(
        name="rows",
        X=X,
        y=np.where(X[:, 0] == 10, 5.0, 6.0),
        feature_names=features,
    )


def test_the_complement_leaves_out_as_many_equal_rows_as_the_test_part_has(tmp_path):
    published(tmp_path)
    rest = load_published_split("housing", tmp_path).complement(housing_rows(10, 12, 10, 14))
    assert rest.X[:, 0].tolist() == [0.0, 2.0]


def test_the_complement_needs_the_data_set_of_the_split(tmp_path):
    published(tmp_path)
    found = load_published_split("housing", tmp_path)
    refusal(lambda: found.complement(housing_rows(10, 14)), "1 of 2 test rows", "'rows'")
    refusal(lambda: found.complement(load_dataset("diabetes")), "'diabetes'", "'bmi'", "'longitude'")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"test": HOUSING.replace("latitude", "lat")}, ["header", "'lat'", "'latitude'"]),
        ({"test": HOUSING.replace("0,5", ",5")}, ["row 2", "'median_income'", "empty cell"]),
        ({"test": HOUSING.replace("0,5", "0,x")}, ["row 2", "'median_house_value'", "'x'"]),
        ({"train": "a,b\n1,2\n"}, ["train_housing_scaled.csv", "header"]),
        ({"params": PARAMS.replace("variance", "std")}, ["'std'", "'variance'"]),
        ({"params": PARAMS.replace("latitude", "lat")}, ["header", "'lat'"]),
        ({"params": PARAMS.replace(",4", ",0", 1)}, ["variance of 0.0", "positive"]),
        ({"params": PARAMS.replace(",4", ",", 1)}, ["row 3", "empty cell"]),
    ],
)
def test_malformed_published_splits_are_refused(tmp_path, files, words):
    published(tmp_path, **files)
    refusal(lambda: load_published_split("housing", tmp_path), *words)


def test_without_scaling_parameters_there_is_no_complement(tmp_path):
    published(tmp_path, params=None)
    found = load_published_split("housing", tmp_path)
    assert (found.train, found.mean, found.scale) == (None, None, None)
    refusal(lambda: found.complement(housing_rows(10, 12)), "no scaling parameters")


def test_absent_published_splits_are_reported(tmp_path):
    refusal(
        lambda: load_published_split("wine", tmp_path),
        "test_winequality_red_scaled.csv",
        str(tmp_path),
        "PREDGAP_DATA",
    )
    refusal(lambda: load_published_split("diabetes", tmp_path), "no data set 'diabetes'", *SOURCES)


# ---- diabetes and splits -------------------------------------------------------------------------


def test_diabetes_needs_neither_network_nor_file():
    dataset = load_dataset("diabetes", download=False)
    assert dataset.X.shape == (442, 10)
    assert dataset.X[:, 0].max() > 70  # years, not standardised
    assert dataset.sha256 is None


def test_diabetes_without_scikit_learn_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(DependencyError, match="pip install scikit-learn"):
        load_dataset("diabetes")


def test_scikit_learn_is_imported_only_when_asked_for():
    code = "import sys, reproduction.data; print([m for m in sys.modules if m.split('.')[0] == 'sklearn'])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_split_is_seeded_disjoint_and_80_to_20():
    dataset = load_dataset("diabetes")
    one, same, other = split(dataset, seed=3), split(dataset, seed=3), split(dataset, seed=4)
    np.testing.assert_array_equal(one.test_rows, same.test_rows)
    np.testing.assert_array_equal(one.train.X, same.train.X)
    assert not np.array_equal(one.test_rows, other.test_rows)
    assert sorted([*one.train_rows, *one.test_rows]) == list(range(442))
    assert (len(one.train), len(one.test)) == (353, 89)
    np.testing.assert_array_equal((dataset.X[one.test_rows] - one.mean) / one.scale, one.test.X)
    np.testing.assert_array_equal(one.train.y, dataset.y[one.train_rows])


def test_standardising_uses_the_training_part_only():
    dataset = load_dataset("diabetes")
    parts = split(dataset, seed=1)
    np.testing.assert_allclose(parts.train.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(parts.train.X.std(axis=0), 1, rtol=1e-12)
    X = dataset.X.copy()
    X[parts.test_rows] *= 1000  # another test part leaves the training part as it was
    changed = split(replace(dataset, X=X), seed=1)
    np.testing.assert_array_equal(changed.train.X, parts.train.X)
    np.testing.assert_array_equal(changed.mean, parts.mean)
    assert abs(parts.test.X.mean(axis=0)).max() > 1e-3


def small(n=10, **changes):
    rng = np.random.default_rng(0)
    fields = {"X": rng.random((n, 2)), "y": rng.random(n), "feature_names": ("a", "b")}
    return Dataset(name="small", **(fields | changes))


def test_a_constant_feature_is_only_centred():
    parts = split(small(X=np.column_stack([np.full(10, 0.1), np.arange(10.0)])))
    assert parts.scale[0] == 1
    assert abs(parts.train.X[:, 0]).max() < 1e-15


@pytest.mark.parametrize(("n", "share", "n_test"), [(10, 0.2, 2), (11, 0.2, 3), (100, 0.07, 7), (2, 0.5, 1)])
def test_the_test_part_is_rounded_up(n, share, n_test):
    assert len(split(small(n), test_share=share).test) == n_test


@pytest.mark.parametrize("share", [0, 1, -0.1, 20, 0.95, float("nan")])
def test_a_share_that_leaves_a_part_empty_is_refused(share):
    refusal(lambda: split(small(), test_share=share), f"test_share={share}", "'small'", "0.2")


@pytest.mark.parametrize("seed", [-1, 0.5, "x", None])
def test_a_seed_is_a_whole_number(seed):
    refusal(lambda: split(small(), seed=seed), "seed")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"y": np.ones(9)}, ["(10, 2)", "(9,)"]),
        ({"y": np.ones((10, 1))}, ["(10, 1)"]),
        ({"y": 3.0}, ["()"]),
        ({"feature_names": ("a",)}, ["(n, 1)"]),
        ({"X": np.full((10, 2), np.nan)}, ["missing or infinite"]),
        ({"X": [["a", "b"]] * 10}, ["X", "not numbers"]),
    ],
)
def test_a_data_set_that_is_none_is_refused(changes, words):
    refusal(lambda: small(**changes), "'small'", *words)


def test_a_data_set_cannot_be_changed_by_accident():
    X = np.ones((10, 2))
    dataset = small(X=X)
    X[0] = 5
    assert dataset.X[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        dataset.X[0] = 5
    assert "array" not in repr(dataset)

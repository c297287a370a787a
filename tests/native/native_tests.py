"""Build the tests of the kernels, which need neither Python nor a model, and run them.

``python native_tests.py`` builds and runs them, with ``--sanitize`` under the sanitizers. ``--fetch`` gets
what is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "native"
# A source package that carries doctest.h, for machines where it is not installed.
CARRIER = "ruckig==0.19.4 --hash=sha256:71d003bf0ff9aa0031d4520b0290a5ffa6458149f5afce8be3ed6d6fba49ea64"


def include_folder() -> Path | None:
    """Return the folder that has doctest/doctest.h, or None."""
    folders = [BUILD / "include", *map(Path, ("/usr/include", "/usr/local/include", "/opt/homebrew/include"))]
    return next((folder for folder in folders if (folder / "doctest" / "doctest.h").is_file()), None)


PATIENCE = 300  # seconds


def cmake() -> str | None:
    """Return the cmake of this Python, or else that of the path."""
    return shutil.which("cmake", path=sysconfig.get_path("scripts")) or shutil.which("cmake")


def missing() -> str | None:
    """Say why the tests cannot be built, or return None."""
    if include_folder() is None:
        return (
            "the native tests of the kernels are skipped: there is no doctest/doctest.h; install doctest-dev"
        )
    if cmake() is None:
        return "the native tests of the kernels are skipped: there is no cmake; install it"
    return None


def fetch() -> None:
    """Get doctest.h if it is not there: from a source package, or as root from the system's packages."""
    if include_folder() is None:
        print("Getting doctest.h for the native tests of the kernels", flush=True)
        _download()
    if include_folder() is None and hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in ("update", "install --yes --no-install-recommends doctest-dev"):
            subprocess.run(["apt-get", *command.split()], capture_output=True, check=False)
    if reason := missing():
        print(reason)


def _download() -> None:
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder, "requirements.txt")
        requirements.write_text(CARRIER)
        options = ["--quiet", "--no-deps", "--no-binary=:all:", "--require-hashes", "--retries=1"]
        pip = [
            sys.executable,
            "-m",
            "pip",
            "download",
            *options,
            f"--dest={folder}",
            f"--requirement={requirements}",
        ]
        try:
            done = subprocess.run(pip, capture_output=True, check=False, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            print(f"doctest.h did not come within {PATIENCE} seconds")
            return
        if done.returncode:
            print(
                "doctest.h cannot be had: " + (done.stderr.strip().splitlines() or ["pip failed"])[-1][:200]
            )
        for archive in Path(folder).glob("*.tar.gz"):
            with tarfile.open(archive) as files:
                name = next(name for name in files.getnames() if name.endswith("/doctest/doctest.h"))
                header = files.extractfile(name)
                assert header is not None
                to = BUILD / "include" / "doctest"
                to.mkdir(parents=True, exist_ok=True)
                (to / "doctest.h").write_bytes(header.read())


def build(source: Path, folder: Path, *options: str) -> Path:
    """Build the tests of a source tree in a folder; return the executable."""
    command, include = cmake(), include_folder()
    assert command is not None
    settings = [f"-DDOCTEST_INCLUDE={include}", "-DPREDGAP_NATIVE_TESTS=ON", *options]
    if os.environ.get("CI"):
        settings.append("-DPREDGAP_WERROR=ON")
    _checked([command, "-S", str(source), "-B", str(folder), *settings])
    _checked([command, "--build", str(folder), "--parallel", str(min(os.cpu_count() or 1, 4))])
    return folder / "tests" / "native" / "predgap_native_tests"


def _checked(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}")


def run(executable: Path, *options: str, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run the tests; what they print is in ``stdout``."""
    env = {"UBSAN_OPTIONS": "halt_on_error=1", **os.environ}
    command = [str(executable), *options]
    return subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
        timeout=seconds,
        check=False,
    )


def main(*arguments: str) -> int:
    """Fetch what is missing, or build and run; return the exit code."""
    if "--fetch" in arguments:
        fetch()
        return 0
    fetch()
    if missing():  # fetch() has said why
        return 0
    sanitized = "--sanitize" in arguments
    # With the sanitizers the kernels of each instruction set take minutes to compile: one is enough.
    options = ["-DPREDGAP_SANITIZE=ON", "-DPREDGAP_BASELINE_ONLY=ON"] if sanitized else []
    done = run(build(ROOT, BUILD / ("sanitized" if sanitized else "tests"), *options))
    print(done.stdout[-20000:])
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

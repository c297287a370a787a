"""Change the core in one place at a time, and see whether the native tests notice: ``make mutants``."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass

import native_tests

_COPY = native_tests.BUILD / "mutants"


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str  # in src/core
    old: str  # is there once
    new: str
    sanitized: bool = False  # only the sanitizers can see it
    in_one_set: bool = False  # it changes one instruction set only


MUTANTS = [
    Mutant(
        "a sign of the shift",
        "noise/fill_tables.hpp",
        "const Lanes shift = low - high;",
        "const Lanes shift = low + high;",
    ),
    Mutant(
        "a tail of the wrong side",
        "terms/forms.hpp",
        "y[t] += tail[0] * later;",
        "y[t] += tail[1] * later;",
    ),
    Mutant(
        "the gain counts `nearer` once",
        "terms/forms.hpp",
        "const double crossed = w[t] * tables.tail[2 * f.atom[t] + 1];\n"
        "            total += crossed * (w[t] + nearer + nearer);",
        "const double crossed = w[t] * tables.tail[2 * f.atom[t] + 1];\n"
        "            total += crossed * (w[t] + nearer);",
    ),
    Mutant(
        "a maximum for a minimum",
        "terms/tiles.hpp",
        "const Four b = min(four(high[j * stride + s]), high_of_four[j]);",
        "const Four b = max(four(high[j * stride + s]), high_of_four[j]);",
    ),
    Mutant(
        "half a diagonal",
        "terms/tiles.hpp",
        "{0.5, 1, 1, 1}, {0, 0.5, 1, 1}, {0, 0, 0.5, 1}, {0, 0, 0, 0.5}",
        "{0.5, 1, 1, 1}, {0, 0.5, 1, 1}, {0, 0, 1, 1}, {0, 0, 0, 0.5}",
    ),
    Mutant(
        "a wrong slot outside",
        "terms/tiles.hpp",
        "if (j != outside) gather_slot(f, f.tables.tail.data(), j, to++, t);",
        "if (j != outside) gather_slot(f, f.tables.tail.data(), to, to, t), ++to;",
    ),
    Mutant(
        "a block that ends too early",
        "terms/blocks.hpp",
        "const auto end = std::min((begin / block + 1) * block, n);",
        "const auto end = std::min((begin / block + 1) * block, n - 1);\n        if (end <= begin) break;",
    ),
    Mutant(
        "a factor 2 of pairs in different blocks",
        "terms/blocks.hpp",
        "return 2.0 * total;",
        "return total;",
    ),
    Mutant(
        "the rank between both sides of x is not empty",
        "terms/blocks.hpp",
        "if (a == above) empty_[slot] = next++;",
        "if (a == above + 1) empty_[slot] = next++;",
    ),
    Mutant(
        "a factor 2 of two terms",
        "terms/closed_forms.hpp",
        "both = four(2.0 * (kTerms - 1));",
        "both = four(1.0 * (kTerms - 1));",
    ),
    Mutant(
        "a lost version",
        "terms/curve.hpp",
        "if (v.n == v.room) show_versions(s, component, gaps);",
        "if (v.n == v.room) v.n = 0;",
    ),
    Mutant(
        "a version that ends one step late",
        "terms/curve.hpp",
        "for (auto i = v.since; i < v.step[k]; ++i) gaps[i] += v.form;",
        "for (auto i = v.since; i <= v.step[k]; ++i) gaps[i] += v.form;",
    ),
    Mutant(
        "a wrong parent in the push",
        "terms/pushing.hpp",
        "weight[parent[t]] += own[t] * shift[atom[t]];",
        "weight[parent[t > 0 ? t - 1 : t]] += own[t] * shift[atom[t]];",
    ),
    Mutant(
        "a missing factor in the push on a plan",
        "terms/pushing.hpp",
        "weight[e->parent] += weight[e->term] * shift[e->atom];",
        "weight[e->parent] += weight[e->term];",
    ),
    Mutant(
        "a product that is not renewed",
        "terms/products.hpp",
        "if (!keeps_gram(s, to) || s.component[to].is_stale) return mark_parent(s, use);",
        "if (!keeps_gram(s, to)) return mark_parent(s, use);\n    if (s.component[to].is_stale) return;",
    ),
    Mutant(
        "a Gram matrix that is not symmetric",
        "terms/products.hpp",
        "transpose(z);",
        "",
    ),
    Mutant(
        "the gain of a unit without its cross terms",
        "terms/unit_gain.hpp",
        "return from.cross + 2.0 * twice;",
        "return from.cross + twice;",
    ),
    Mutant(
        "a determinant of the wrong sign",
        "terms/fill_sets.hpp",
        "sign * (both[v] * neither - (own - both[v]) * (other - both[v]))",
        "sign * (both[v] * neither + (own - both[v]) * (other - both[v]))",
    ),
    Mutant(
        "cells that are not centred along the last axis",
        "terms/grid_forms.hpp",
        "i == last_ ? centre_rows() : centre_axis(i);",
        "if (i != last_) centre_axis(i);",
    ),
    Mutant(
        "a subset's weights without its last bit",
        "terms/subset_forms.hpp",
        "for (std::int64_t bit = 1; bit < n_packs; bit *= 2)",
        "for (std::int64_t bit = 1; 2 * bit < n_packs; bit *= 2)",
    ),
    Mutant(
        "one instruction set that adds up in another order",
        "simd/lanes.hpp",
        "PREDGAP_INLINE double sum(const Four& a) { return (a[0] + a[2]) + (a[1] + a[3]); }",
        "PREDGAP_INLINE double sum(const Four& a) {\n"
        "    return kWidest == 4 ? (a[0] + a[1]) + (a[2] + a[3]) : (a[0] + a[2]) + (a[1] + a[3]);\n}",
        in_one_set=True,
    ),
    Mutant(
        "a polynomial of tails without its last coefficient",
        "noise/tails.hpp",
        "even = even * square + splat_to<N>(kMills[0]);",
        "even = even * square;",
    ),
    Mutant(
        "scratch memory that is too small by the weights of an output",
        "terms/form_scratch.hpp",
        "TileArrays(pairs, c.size, c.stride, width);",
        "TileArrays(pairs, c.size, c.stride, width - 1);",
        sanitized=True,
    ),
]


def _fresh_copy() -> None:
    for name in ("CMakeLists.txt", "src", "tests/native"):
        source, to = native_tests.ROOT / name, _COPY / "tree" / name
        if source.is_file():
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, to)
        else:
            shutil.copytree(source, to, dirs_exist_ok=True)


def _caught_by(mutant: Mutant) -> str:
    """Build the core with the mutant; name the first test that fails, or say that none does."""
    path = _COPY / "tree" / "src" / "core" / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        return "OUTDATED: its text is not there once"
    path.write_text(text.replace(mutant.old, mutant.new))
    try:
        settings = {"SANITIZE": mutant.sanitized, "BASELINE_ONLY": not mutant.in_one_set}
        options = [f"-DPREDGAP_{name}={'ON' if is_on else 'OFF'}" for name, is_on in settings.items()]
        folder = _COPY / (
            "sanitized" if mutant.sanitized else "every_set" if mutant.in_one_set else "baseline"
        )
        executable = native_tests.build(_COPY / "tree", folder, *options)
        done = native_tests.run(executable, "--abort-after=1", seconds=900)
    except RuntimeError as error:
        return f"NOT BUILT: {error}"
    except subprocess.TimeoutExpired:
        return "the tests do not end"
    finally:
        path.write_text(text)
    if done.returncode == 0:
        return "SURVIVED"
    if mutant.sanitized:
        found = re.search(r"(?:AddressSanitizer: \S+|runtime error: .*|predgap: .*)", done.stdout)
        return found[0] if found else "SURVIVED the sanitizers"
    names = re.findall(r"TEST CASE:\s+(.*)", done.stdout)
    return names[-1] if names else f"exit code {done.returncode}"


def main(*words: str) -> int:
    """Try the mutants whose names have one of the words, or all."""
    if reason := native_tests.missing():
        print(reason)
        return 0
    _fresh_copy()
    n_missed = 0
    for mutant in MUTANTS:
        if words and not any(word in mutant.name for word in words):
            continue
        start = time.monotonic()
        verdict = _caught_by(mutant)
        n_missed += verdict.startswith(("SURVIVED", "OUTDATED", "NOT BUILT"))
        print(f"{mutant.name} ({mutant.file}): {verdict} ({time.monotonic() - start:.0f} s)", flush=True)
    print(f"{n_missed} mutants were not caught")
    return n_missed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

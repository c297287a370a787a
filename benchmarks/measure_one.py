"""Measures one model in this process, and writes what it found as JSON.

python benchmarks/measure_one.py NAME SETTINGS_AS_JSON FILE
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from pathlib import Path
from typing import Any

import treeshap
from found import Found
from settings import Settings
from timing import least
from trained import GROWN, PAPER, Trained, kept, trained

LIBRARIES = ("numpy", "scikit-learn", "lightgbm", "xgboost-cpu", "xgboost", "shap", "predgap")


def versions() -> dict[str, str]:
    found = {"processor": processor(), "python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def processor() -> str:
    """Its name where the system gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def measured(case: Trained, settings: Settings) -> dict[str, Any]:
    if case.name in PAPER:
        from batches import paper

        unit, (shap_ms, lines) = "shap.TreeExplainer", paper(case, settings)
    elif case.name in GROWN:
        from batches import grown

        unit, (shap_ms, lines) = "XGBoost pred_contribs", grown(case, settings)
    else:
        from questions import ASKED
        from rowwise import measure

        rows = case.rows(settings.rows)
        own = treeshap.own(case.model, rows)
        unit, (shap_ms, lines) = own[0], measure(case, ASKED[case.name], own, rows, settings)
    return {"unit": unit, "shap_ms": shap_ms, "lines": [line.to_json() for line in lines]} | kernels(case)


def kernels(case: Trained) -> dict[str, Any]:
    import predgap
    from predgap import _core

    ensemble = predgap.load(case.model)
    shape = {"trees": len(ensemble.root), "leaves": int((ensemble.left < 0).sum())}
    return {"shape": shape, "versions": versions() | {"kernels": _core.instruction_set()}}


def baseline(case: Trained, settings: Settings) -> dict[str, Any]:
    """One TreeSHAP row only; needs no predgap."""
    rows = case.rows(settings.rows)
    unit, calls = treeshap.own(case.model, rows)
    contenders = {unit: calls}
    if case.name in PAPER:
        contenders["shap.TreeExplainer"] = treeshap.by_shap(case.model, [x[None] for x in rows])
    found = least(contenders, settings.rounds, settings.patience)
    ms = {name: timing.milliseconds for name, timing in found.items()}
    lines = [
        Found(name, ms[name], unit, ms[name] / ms[unit], against="nothing: no answer of ours").to_json()
        for name in ms
        if name != unit
    ]
    return {"unit": unit, "shap_ms": ms[unit], "lines": lines, "versions": versions()}


def main() -> None:
    name, settings, path = sys.argv[1], Settings(**json.loads(sys.argv[2])), Path(sys.argv[3])
    case = trained(name, settings.part)
    if case is None:
        path.write_text("null")
        return
    found = baseline(case, settings) if settings.baseline else measured(case, settings)
    title = (
        case.title
        if settings.part == 1 or name in PAPER
        else f"{case.title} (of its trees {settings.part:.0%})"
    )
    common = {"name": name, "title": title, "file": str(kept(name, settings.part))}
    path.write_text(json.dumps(common | found))


if __name__ == "__main__":
    main()

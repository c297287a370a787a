"""Tables of what was found, as Markdown."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

PREDICTED = (0.5, 2.0)  # milliseconds said / measured
COLUMNS = (
    "question | ms a row | ratio | to one | aim | reached | obtained | true error | compared with "
    "| cost said / measured: counts | probed"
)


def section(result: Json) -> str:
    """One model."""
    head = f"### {result['title']}\n\nOne TreeSHAP row ({result['unit']}): {result['shap_ms']:.3g} ms"
    if "shape" in result:
        head += ". " + ", ".join(f"{value:,} {name}" for name, value in result["shape"].items())
    parts = [head + "."]
    if result["lines"]:
        rows = [f"| {COLUMNS} |", "|---" * (COLUMNS.count("|") + 1) + "|"]
        rows += [_row(line) for line in result["lines"]]
        parts.append("\n".join(rows))
    for line in result["lines"]:
        if line["refused"]:
            parts.append(f"{line['question']} was refused: {line['refused']}")
    parts += [f"**Wrong**: {wrong}" for wrong in wrong_answers(result)]
    if result.get("memory"):
        parts.append(_memory(result["memory"]))
    return "\n\n".join(parts) + "\n"


def _row(line: Json) -> str:
    milliseconds = _milliseconds(line["milliseconds"])
    cells = [
        line["question"],
        f"refused after {milliseconds}" if line["refused"] else milliseconds,
        f"{line['ratio']:.2f}",
        line["unit"],
        _aim(line),
        _verdict(line),
        line["obtained"] or "–",
        "–" if line["error"] is None else f"{line['error']:.1e}",
        line["against"] or "–",
        *(_predicted(line["predicted"].get(how)) for how in ("counts", "probed")),
    ]
    return "| " + " | ".join(cells) + " |"


def _verdict(line: Json) -> str:
    verdict = {None: "–", True: "ok", False: "not reached"}[line["reached"]]
    return f"{verdict}, not checked" if is_unchecked(line) else verdict


def _milliseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _aim(line: Json) -> str:
    aims = [
        f"{line['aim']:g}" if line["aim"] is not None else "",
        f"{_milliseconds(line['aim_ms'])} ms" if line["aim_ms"] is not None else "",
        f"error {line['aim_error']:g}" if line["aim_error"] is not None else "",
        f"refused in {_milliseconds(line['refusal_ms'])} ms" if line["refusal_ms"] is not None else "",
    ]
    return ", ".join(aim for aim in aims if aim) or "–"


def _predicted(ratio: float | None) -> str:
    if ratio is None:
        return "–"
    return f"{ratio:.2f} {'ok' if PREDICTED[0] <= ratio <= PREDICTED[1] else 'not reached'}"


def _memory(memory: Json) -> str:
    peak, before, aim = (memory[f"{name}, MiB"] for name in ("peak", "model loaded", "aim"))
    verdict = "ok" if peak <= aim else "not reached"
    return f"Peak memory {peak:.0f} MiB, {before:.0f} of it before any question (aim {aim:.0f}): {verdict}."


def wrong_answers(result: Json) -> list[str]:
    return [f"{line['question']}: {wrong}" for line in result["lines"] for wrong in line["wrong"]]


def is_unchecked(line: Json) -> bool:
    """Answered, but nothing tighter was affordable."""
    return line["against"] is None and line["refused"] is None


def missed(result: Json) -> list[str]:
    """The aims that were not reached."""
    lines = result["lines"]
    found = [f"{line['question']} to {line['unit']}" for line in lines if line["reached"] is False]
    ratios = [ratio for line in lines for ratio in line["predicted"].values()]
    off = sum(not PREDICTED[0] <= ratio <= PREDICTED[1] for ratio in ratios)
    if off:
        found.append(f"{off} of {len(ratios)} costs")
    memory = result.get("memory")
    if memory and memory["peak, MiB"] > memory["aim, MiB"]:
        found.append("peak memory")
    return found


def summary(results: list[Json]) -> str:
    """What to look at first."""
    lines = ["### Summary", ""]
    for result in results:
        wrong, not_reached = wrong_answers(result), missed(result)
        verdict = "not reached: " + "; ".join(not_reached) if not_reached else "all aims reached"
        unchecked = sum(map(is_unchecked, result["lines"]))
        lines.append(f"- {result['name']}: {len(wrong)} wrong, {unchecked} not checked; {verdict}")
    return "\n".join(lines) + "\n"


def versions(result: Json) -> str:
    return ", ".join(f"{name} {version}" for name, version in result["versions"].items())

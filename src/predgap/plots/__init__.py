"""Plots of gaps, scores and rankings, drawn with matplotlib.

Every function takes `ax`, the axes to draw on, and returns it; without it, a new figure is made, large enough
for what it shows. No title is set. `noise` is named in a small line below the axes.

Methods get colours, markers and line styles in the order in which they are given, so a method looks the same
in all plots if it is given at the same position. Nothing is told by colour alone, and colours can be told
apart by colour-blind readers. Names are drawn as they are: dollars start no formula, and long names are cut
in the middle.
"""

from predgap.plots._rows import ladder, swarm
from predgap.plots._scores import agreement, by_strength, gap_curves, leaderboard
from predgap.plots._two_models import differences, drivers

__all__ = [
    "agreement",
    "by_strength",
    "differences",
    "drivers",
    "gap_curves",
    "ladder",
    "leaderboard",
    "swarm",
]

"""Rankings: features of each row, most important first; made from gaps or from attributions, or given."""

from predgap.ranking._given import ranking_order
from predgap.ranking._ranking import Ranking

__all__ = ["Ranking", "ranking_order"]

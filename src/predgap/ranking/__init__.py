"""Rankings: features of each row, most important first; made from gaps or from attributions, or given."""

from predgap.ranking._given import check_same_rows, ranking_order
from predgap.ranking._ranking import Ranking, made_ranking

__all__ = ["Ranking", "check_same_rows", "made_ranking", "ranking_order"]

"""Rankings: features of each row, most important first; made from gaps or from attributions, or given."""

from predgap.ranking.ranking import Ranking, check_same_rows, made_ranking, ranking_order

__all__ = ["Ranking", "check_same_rows", "made_ranking", "ranking_order"]

"""`predgap.evaluate`: scores rankings against each other, and says how far they can be trusted."""

from predgap.evaluation.evaluation import evaluate
from predgap.evaluation.requests import WORDS
from predgap.evaluation.result import Evaluation
from predgap.evaluation.statistics import Difference

__all__ = ["WORDS", "Difference", "Evaluation", "evaluate"]

"""Reports: evaluations, tables and figures."""

from rankmixup.reports.evaluation import Evaluation, evaluate, evaluate_scores

__all__ = ["Evaluation", "evaluate", "evaluate_scores"]

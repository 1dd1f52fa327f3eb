"""The scikit-learn estimator: networks of calibrated confidence in pipelines, cross-validation and searches."""

from rankmixup.integrations.sklearn import RankMixupClassifier

__all__ = ["RankMixupClassifier"]

from sklearn.utils.estimator_checks import parametrize_with_checks

from rankmixup.sklearn import RankMixupClassifier
from tests.oracles import unchecked


@parametrize_with_checks([RankMixupClassifier(epochs=15, learning_rate=0.01)])
def test_checks(estimator, check):
    with unchecked():
        check(estimator)

"""Every metric in the registry keeps the contract of registered metrics."""

import pytest

from rankmixup.evaluation import METRICS
from rankmixup.testing import RegisteredMetricContract


class TestRegisteredMetric(RegisteredMetricContract):
    @pytest.fixture(params=list(METRICS))
    def key(self, request):
        return request.param

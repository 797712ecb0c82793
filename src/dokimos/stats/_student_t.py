"""Student's t distribution, central and not, on the incomplete beta function."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Final

from dokimos.stats._intervals import beta_cdf, beta_quantile

_NORMAL: Final = NormalDist()
# From here on the normal distribution is the same to six digits, and the continued fraction converges slowly.
_NORMAL_FROM_FREEDOM: Final = 1e6
# Even, as Simpson's rule needs.
_STEPS: Final = 400


def t_cdf(t: float, freedom: float) -> float:
    """Return the share of Student's t distribution below `t` (Student, 1908)."""
    if math.isinf(t):
        return float(t > 0)
    tail = beta_cdf(freedom / (freedom + t * t), freedom / 2, 0.5) / 2
    return tail if t < 0 else 1 - tail


@lru_cache(4_096)
def t_quantile(probability: float, freedom: float) -> float:
    """Return the value below which a variable of Student's t distribution lies with `probability`."""
    if freedom > _NORMAL_FROM_FREEDOM:
        return _NORMAL.inv_cdf(probability)
    tail = min(probability, 1 - probability)
    if tail == 0.5:
        return 0.0
    # Through the smaller tail, where the share does not lose its digits to 1.
    share = beta_quantile(2 * tail, freedom / 2, 0.5)
    size = math.sqrt(freedom * (1 - share) / share)
    return size if probability > 0.5 else -size


def noncentral_t_cdf(t: float, freedom: float, shift: float) -> float:
    """Return the share of a noncentral t distribution, (normal + shift) / (chi / root of freedom), below `t`.

    It is the mean of the normal distribution function over the chi variable, by Simpson's rule, good to
    five decimals for one degree of freedom and to nine for many.
    """
    log_front = math.log(2) + freedom / 2 * math.log(freedom / 2) - math.lgamma(freedom / 2)

    def integrand(scale: float) -> float:
        density = math.exp(log_front + (freedom - 1) * math.log(scale) - freedom * scale * scale / 2)
        return _NORMAL.cdf(t * scale - shift) * density

    # Nine standard deviations of the chi variable; for few degrees of freedom its right tail is longer.
    reach = 9 / math.sqrt(2 * freedom)
    low, high = max(1e-9, 1 - reach), 1 + reach + 6 / freedom
    width = (high - low) / _STEPS
    inner = sum((4 if i % 2 else 2) * integrand(low + i * width) for i in range(1, _STEPS))
    return min(1.0, (integrand(low) + inner + integrand(high)) * width / 3)

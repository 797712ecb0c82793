"""Statistics for scores and verdicts: tests, intervals, power, and judges corrected by labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.stats._agreement import agreement as agreement
    from dokimos.stats._agreement import cohen_kappa as cohen_kappa
    from dokimos.stats._agreement import krippendorff_alpha as krippendorff_alpha
    from dokimos.stats._agreement_intervals import cohen_kappa_interval as cohen_kappa_interval
    from dokimos.stats._agreement_intervals import krippendorff_alpha_interval as krippendorff_alpha_interval
    from dokimos.stats._bootstrap import bootstrap_interval as bootstrap_interval
    from dokimos.stats._bootstrap import bootstrap_mean_interval as bootstrap_mean_interval
    from dokimos.stats._bootstrap import percentile as percentile
    from dokimos.stats._chance_alerts import ChanceAlerts as ChanceAlerts
    from dokimos.stats._chance_alerts import chance_alerts as chance_alerts
    from dokimos.stats._chance_alerts import chance_alerts_of_rate as chance_alerts_of_rate
    from dokimos.stats._change_alarm import ChangeAlarm as ChangeAlarm
    from dokimos.stats._change_detector import ChangeDetector as ChangeDetector
    from dokimos.stats._corrected_rate import CorrectedRate as CorrectedRate
    from dokimos.stats._corrected_rate import LabelsApart as LabelsApart
    from dokimos.stats._corrected_rate import VerdictCounts as VerdictCounts
    from dokimos.stats._corrected_rate import corrected_finite_rate as corrected_finite_rate
    from dokimos.stats._corrected_rate import corrected_rate as corrected_rate
    from dokimos.stats._e_process import EDetector as EDetector
    from dokimos.stats._e_process import EProcess as EProcess
    from dokimos.stats._effect import cohens_h as cohens_h
    from dokimos.stats._effect import discordant_odds_ratio as discordant_odds_ratio
    from dokimos.stats._effect import hedges_g as hedges_g
    from dokimos.stats._effect import rank_biserial as rank_biserial
    from dokimos.stats._effect import standardised_mean_difference as standardised_mean_difference
    from dokimos.stats._finite_rate import finite_interval as finite_interval
    from dokimos.stats._finite_rate import finite_mid_p_interval as finite_mid_p_interval
    from dokimos.stats._intervals import Interval as Interval
    from dokimos.stats._intervals import beta_cdf as beta_cdf
    from dokimos.stats._intervals import beta_quantile as beta_quantile
    from dokimos.stats._intervals import clopper_pearson_interval as clopper_pearson_interval
    from dokimos.stats._intervals import mid_p_interval as mid_p_interval
    from dokimos.stats._intervals import wilson_interval as wilson_interval
    from dokimos.stats._label_counts import LabelCounts as LabelCounts
    from dokimos.stats._label_counts import PickedLabel as PickedLabel
    from dokimos.stats._label_counts import count_labels as count_labels
    from dokimos.stats._labels_needed import labels_needed as labels_needed
    from dokimos.stats._mcnemar import McNemarTest as McNemarTest
    from dokimos.stats._mcnemar import mcnemar_p as mcnemar_p
    from dokimos.stats._mcnemar import mcnemar_test as mcnemar_test
    from dokimos.stats._multiplicity import benjamini_hochberg as benjamini_hochberg
    from dokimos.stats._multiplicity import holm as holm
    from dokimos.stats._multiplicity import sidak_level as sidak_level
    from dokimos.stats._paired_estimates import Estimate as Estimate
    from dokimos.stats._paired_estimates import clustered_mean_estimate as clustered_mean_estimate
    from dokimos.stats._paired_estimates import constant_interval as constant_interval
    from dokimos.stats._paired_estimates import mean_estimate as mean_estimate
    from dokimos.stats._paired_estimates import paired_estimate as paired_estimate
    from dokimos.stats._paired_estimates import paired_rate_interval as paired_rate_interval
    from dokimos.stats._permutation import FamilyTest as FamilyTest
    from dokimos.stats._permutation import SignFlipTest as SignFlipTest
    from dokimos.stats._permutation import exchange_p as exchange_p
    from dokimos.stats._permutation import max_t_test as max_t_test
    from dokimos.stats._permutation import paired_deltas as paired_deltas
    from dokimos.stats._permutation import sign_flip_test as sign_flip_test
    from dokimos.stats._permutation import to_fixed_point as to_fixed_point
    from dokimos.stats._power import Spread as Spread
    from dokimos.stats._power import detectable_effect as detectable_effect
    from dokimos.stats._power import items_needed as items_needed
    from dokimos.stats._power import mcnemar_detectable_drop as mcnemar_detectable_drop
    from dokimos.stats._power import mcnemar_items_needed as mcnemar_items_needed
    from dokimos.stats._power import mcnemar_power as mcnemar_power
    from dokimos.stats._power import paired_power as paired_power
    from dokimos.stats._power import stratified_counts as stratified_counts
    from dokimos.stats._ppi import JudgedSample as JudgedSample
    from dokimos.stats._ppi import PpiEstimate as PpiEstimate
    from dokimos.stats._ppi import ppi_difference as ppi_difference
    from dokimos.stats._ppi import ppi_mean as ppi_mean
    from dokimos.stats._ppi import ppi_paired_difference as ppi_paired_difference
    from dokimos.stats._sequential import SequentialTest as SequentialTest
    from dokimos.stats._sequential import anytime_interval as anytime_interval
    from dokimos.stats._sequential import anytime_p as anytime_p
    from dokimos.stats._skewed_mean import MeanSummary as MeanSummary
    from dokimos.stats._skewed_mean import coverage_of_few as coverage_of_few
    from dokimos.stats._thresholds import Threshold as Threshold
    from dokimos.stats._thresholds import balanced_accuracy as balanced_accuracy
    from dokimos.stats._thresholds import best_threshold as best_threshold
    from dokimos.stats._thresholds import cross_validated_accuracy as cross_validated_accuracy
    from dokimos.stats._thresholds import stratified_folds as stratified_folds
    from dokimos.stats._trace_values import WeightedValue as WeightedValue
    from dokimos.stats._trace_values import merge_trace as merge_trace
    from dokimos.stats._trace_values import split_false_alarms as split_false_alarms
    from dokimos.stats._trace_values import squash as squash
    from dokimos.stats._trace_values import unsquash as unsquash
    from dokimos.stats._uneven_power import UnevenDrop as UnevenDrop
    from dokimos.stats._uneven_power import uneven_power as uneven_power
    from dokimos.stats._verdict_power import VerdictDesign as VerdictDesign
    from dokimos.stats._verdict_power import detectable_verdict_drop as detectable_verdict_drop
    from dokimos.stats._verdict_power import verdict_items_needed as verdict_items_needed
    from dokimos.stats._verdict_power import verdict_power as verdict_power
    from dokimos.stats._weighted_mean import WeightedEstimate as WeightedEstimate
    from dokimos.stats._weighted_mean import weighted_mean_estimate as weighted_mean_estimate

_MODULE_OF: Final = {
    "ChanceAlerts": "dokimos.stats._chance_alerts",
    "ChangeAlarm": "dokimos.stats._change_alarm",
    "ChangeDetector": "dokimos.stats._change_detector",
    "CorrectedRate": "dokimos.stats._corrected_rate",
    "EDetector": "dokimos.stats._e_process",
    "EProcess": "dokimos.stats._e_process",
    "Estimate": "dokimos.stats._paired_estimates",
    "FamilyTest": "dokimos.stats._permutation",
    "Interval": "dokimos.stats._intervals",
    "JudgedSample": "dokimos.stats._ppi",
    "LabelCounts": "dokimos.stats._label_counts",
    "LabelsApart": "dokimos.stats._corrected_rate",
    "McNemarTest": "dokimos.stats._mcnemar",
    "MeanSummary": "dokimos.stats._skewed_mean",
    "PickedLabel": "dokimos.stats._label_counts",
    "PpiEstimate": "dokimos.stats._ppi",
    "SequentialTest": "dokimos.stats._sequential",
    "SignFlipTest": "dokimos.stats._permutation",
    "Spread": "dokimos.stats._power",
    "Threshold": "dokimos.stats._thresholds",
    "UnevenDrop": "dokimos.stats._uneven_power",
    "VerdictCounts": "dokimos.stats._corrected_rate",
    "VerdictDesign": "dokimos.stats._verdict_power",
    "WeightedEstimate": "dokimos.stats._weighted_mean",
    "WeightedValue": "dokimos.stats._trace_values",
    "agreement": "dokimos.stats._agreement",
    "anytime_interval": "dokimos.stats._sequential",
    "anytime_p": "dokimos.stats._sequential",
    "balanced_accuracy": "dokimos.stats._thresholds",
    "benjamini_hochberg": "dokimos.stats._multiplicity",
    "best_threshold": "dokimos.stats._thresholds",
    "beta_cdf": "dokimos.stats._intervals",
    "beta_quantile": "dokimos.stats._intervals",
    "bootstrap_interval": "dokimos.stats._bootstrap",
    "bootstrap_mean_interval": "dokimos.stats._bootstrap",
    "chance_alerts": "dokimos.stats._chance_alerts",
    "chance_alerts_of_rate": "dokimos.stats._chance_alerts",
    "clopper_pearson_interval": "dokimos.stats._intervals",
    "clustered_mean_estimate": "dokimos.stats._paired_estimates",
    "cohen_kappa": "dokimos.stats._agreement",
    "cohen_kappa_interval": "dokimos.stats._agreement_intervals",
    "cohens_h": "dokimos.stats._effect",
    "constant_interval": "dokimos.stats._paired_estimates",
    "corrected_finite_rate": "dokimos.stats._corrected_rate",
    "corrected_rate": "dokimos.stats._corrected_rate",
    "count_labels": "dokimos.stats._label_counts",
    "coverage_of_few": "dokimos.stats._skewed_mean",
    "cross_validated_accuracy": "dokimos.stats._thresholds",
    "detectable_effect": "dokimos.stats._power",
    "detectable_verdict_drop": "dokimos.stats._verdict_power",
    "discordant_odds_ratio": "dokimos.stats._effect",
    "exchange_p": "dokimos.stats._permutation",
    "finite_interval": "dokimos.stats._finite_rate",
    "finite_mid_p_interval": "dokimos.stats._finite_rate",
    "hedges_g": "dokimos.stats._effect",
    "holm": "dokimos.stats._multiplicity",
    "items_needed": "dokimos.stats._power",
    "krippendorff_alpha": "dokimos.stats._agreement",
    "krippendorff_alpha_interval": "dokimos.stats._agreement_intervals",
    "labels_needed": "dokimos.stats._labels_needed",
    "max_t_test": "dokimos.stats._permutation",
    "mcnemar_detectable_drop": "dokimos.stats._power",
    "mcnemar_items_needed": "dokimos.stats._power",
    "mcnemar_p": "dokimos.stats._mcnemar",
    "mcnemar_power": "dokimos.stats._power",
    "mcnemar_test": "dokimos.stats._mcnemar",
    "mean_estimate": "dokimos.stats._paired_estimates",
    "merge_trace": "dokimos.stats._trace_values",
    "mid_p_interval": "dokimos.stats._intervals",
    "paired_deltas": "dokimos.stats._permutation",
    "paired_estimate": "dokimos.stats._paired_estimates",
    "paired_power": "dokimos.stats._power",
    "paired_rate_interval": "dokimos.stats._paired_estimates",
    "percentile": "dokimos.stats._bootstrap",
    "ppi_difference": "dokimos.stats._ppi",
    "ppi_mean": "dokimos.stats._ppi",
    "ppi_paired_difference": "dokimos.stats._ppi",
    "rank_biserial": "dokimos.stats._effect",
    "sidak_level": "dokimos.stats._multiplicity",
    "sign_flip_test": "dokimos.stats._permutation",
    "split_false_alarms": "dokimos.stats._trace_values",
    "squash": "dokimos.stats._trace_values",
    "standardised_mean_difference": "dokimos.stats._effect",
    "stratified_counts": "dokimos.stats._power",
    "stratified_folds": "dokimos.stats._thresholds",
    "to_fixed_point": "dokimos.stats._permutation",
    "uneven_power": "dokimos.stats._uneven_power",
    "unsquash": "dokimos.stats._trace_values",
    "verdict_items_needed": "dokimos.stats._verdict_power",
    "verdict_power": "dokimos.stats._verdict_power",
    "weighted_mean_estimate": "dokimos.stats._weighted_mean",
    "wilson_interval": "dokimos.stats._intervals",
}
__all__ = [
    "ChanceAlerts",
    "ChangeAlarm",
    "ChangeDetector",
    "CorrectedRate",
    "EDetector",
    "EProcess",
    "Estimate",
    "FamilyTest",
    "Interval",
    "JudgedSample",
    "LabelCounts",
    "LabelsApart",
    "McNemarTest",
    "MeanSummary",
    "PickedLabel",
    "PpiEstimate",
    "SequentialTest",
    "SignFlipTest",
    "Spread",
    "Threshold",
    "UnevenDrop",
    "VerdictCounts",
    "VerdictDesign",
    "WeightedEstimate",
    "WeightedValue",
    "agreement",
    "anytime_interval",
    "anytime_p",
    "balanced_accuracy",
    "benjamini_hochberg",
    "best_threshold",
    "beta_cdf",
    "beta_quantile",
    "bootstrap_interval",
    "bootstrap_mean_interval",
    "chance_alerts",
    "chance_alerts_of_rate",
    "clopper_pearson_interval",
    "clustered_mean_estimate",
    "cohen_kappa",
    "cohen_kappa_interval",
    "cohens_h",
    "constant_interval",
    "corrected_finite_rate",
    "corrected_rate",
    "count_labels",
    "coverage_of_few",
    "cross_validated_accuracy",
    "detectable_effect",
    "detectable_verdict_drop",
    "discordant_odds_ratio",
    "exchange_p",
    "finite_interval",
    "finite_mid_p_interval",
    "hedges_g",
    "holm",
    "items_needed",
    "krippendorff_alpha",
    "krippendorff_alpha_interval",
    "labels_needed",
    "max_t_test",
    "mcnemar_detectable_drop",
    "mcnemar_items_needed",
    "mcnemar_p",
    "mcnemar_power",
    "mcnemar_test",
    "mean_estimate",
    "merge_trace",
    "mid_p_interval",
    "paired_deltas",
    "paired_estimate",
    "paired_power",
    "paired_rate_interval",
    "percentile",
    "ppi_difference",
    "ppi_mean",
    "ppi_paired_difference",
    "rank_biserial",
    "sidak_level",
    "sign_flip_test",
    "split_false_alarms",
    "squash",
    "standardised_mean_difference",
    "stratified_counts",
    "stratified_folds",
    "to_fixed_point",
    "uneven_power",
    "unsquash",
    "verdict_items_needed",
    "verdict_power",
    "weighted_mean_estimate",
    "wilson_interval",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)

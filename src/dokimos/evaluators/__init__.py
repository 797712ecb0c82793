"""Evaluators: each is a frozen dataclass whose fields are its configuration and whose `score` is its rule.

`from dokimos.evaluators import ExactMatch` imports the one module that is needed, and no other.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from dokimos._exports import names_for_completion
from dokimos.evaluators.registry import BUILT_IN

if TYPE_CHECKING:
    from dokimos.evaluators._agent.accepted_values import one_of as one_of
    from dokimos.evaluators._agent.argument_matching import ArgumentMatcher as ArgumentMatcher
    from dokimos.evaluators._agent.run_ratings import PlanAdherence as PlanAdherence
    from dokimos.evaluators._agent.run_ratings import PlanQuality as PlanQuality
    from dokimos.evaluators._agent.run_ratings import StepEfficiency as StepEfficiency
    from dokimos.evaluators._agent.task_completion import TaskCompletion as TaskCompletion
    from dokimos.evaluators._agent.tool_argument_hallucination import (
        ToolArgumentHallucination as ToolArgumentHallucination,
    )
    from dokimos.evaluators._agent.tool_call_validity import ToolCallValidity as ToolCallValidity
    from dokimos.evaluators._agent.tool_correctness import ToolCorrectness as ToolCorrectness
    from dokimos.evaluators._agent.tool_description_reliability import (
        ToolDescriptionReliability as ToolDescriptionReliability,
    )
    from dokimos.evaluators._agent.tool_efficiency import ToolEfficiency as ToolEfficiency
    from dokimos.evaluators._agent.tool_errors import ToolErrors as ToolErrors
    from dokimos.evaluators._agent.tool_graph import ToolGraph as ToolGraph
    from dokimos.evaluators._agent.tool_limits import ForbiddenTools as ForbiddenTools
    from dokimos.evaluators._agent.tool_limits import MaxToolCalls as MaxToolCalls
    from dokimos.evaluators._agent.tool_name_reliability import ToolNameReliability as ToolNameReliability
    from dokimos.evaluators._agent.tool_selection import ToolSelection as ToolSelection
    from dokimos.evaluators._agent.tool_trajectory import ToolTrajectory as ToolTrajectory
    from dokimos.evaluators._base import Evaluator as Evaluator
    from dokimos.evaluators._calibration import calibrate as calibrate
    from dokimos.evaluators._calibration import calibrate_async as calibrate_async
    from dokimos.evaluators._calibration_result import Calibration as Calibration
    from dokimos.evaluators._conversation.criteria import CRITERIA as CRITERIA
    from dokimos.evaluators._conversation.criteria import Criterion as Criterion
    from dokimos.evaluators._conversation.outcome import ConversationCompleteness as ConversationCompleteness
    from dokimos.evaluators._conversation.outcome import UserFrustration as UserFrustration
    from dokimos.evaluators._conversation.per_turn import PerTurn as PerTurn
    from dokimos.evaluators._conversation.reply_verdicts import KnowledgeRetention as KnowledgeRetention
    from dokimos.evaluators._conversation.reply_verdicts import RoleAdherence as RoleAdherence
    from dokimos.evaluators._conversation.reply_verdicts import TurnRelevance as TurnRelevance
    from dokimos.evaluators._conversation.trajectory import Trajectory as Trajectory
    from dokimos.evaluators._function import FunctionEvaluator as FunctionEvaluator
    from dokimos.evaluators._function import evaluator as evaluator
    from dokimos.evaluators._injection_resistance import InjectionResistance as InjectionResistance
    from dokimos.evaluators._json_schema import JsonSchema as JsonSchema
    from dokimos.evaluators._labelled_verdicts import LabelledVerdict as LabelledVerdict
    from dokimos.evaluators._llm.compare_pairwise import PairwiseReport as PairwiseReport
    from dokimos.evaluators._llm.compare_pairwise import compare_pairwise as compare_pairwise
    from dokimos.evaluators._llm.compare_pairwise import compare_pairwise_async as compare_pairwise_async
    from dokimos.evaluators._llm.g_eval import GEval as GEval
    from dokimos.evaluators._llm.harm_presets import Bias as Bias
    from dokimos.evaluators._llm.harm_presets import Misuse as Misuse
    from dokimos.evaluators._llm.harm_presets import PIILeakage as PIILeakage
    from dokimos.evaluators._llm.harm_presets import Toxicity as Toxicity
    from dokimos.evaluators._llm.jury import Jury as Jury
    from dokimos.evaluators._llm.llm_judge import LLMJudge as LLMJudge
    from dokimos.evaluators._llm.pairwise import Pairwise as Pairwise
    from dokimos.evaluators._llm.presets import Coherence as Coherence
    from dokimos.evaluators._llm.presets import Completeness as Completeness
    from dokimos.evaluators._llm.presets import Conciseness as Conciseness
    from dokimos.evaluators._llm.presets import Correctness as Correctness
    from dokimos.evaluators._llm.presets import Helpfulness as Helpfulness
    from dokimos.evaluators._llm.presets import InstructionFollowing as InstructionFollowing
    from dokimos.evaluators._llm.presets import Refusal as Refusal
    from dokimos.evaluators._llm.presets import Summarisation as Summarisation
    from dokimos.evaluators._llm.presets import Tone as Tone
    from dokimos.evaluators._llm.rating import GradedExample as GradedExample
    from dokimos.evaluators._nlp.bleu import Bleu as Bleu
    from dokimos.evaluators._nlp.bleu import Chrf as Chrf
    from dokimos.evaluators._nlp.embedding_similarity import EmbeddingSimilarity as EmbeddingSimilarity
    from dokimos.evaluators._nlp.meteor import Meteor as Meteor
    from dokimos.evaluators._nlp.rouge import Rouge as Rouge
    from dokimos.evaluators._nlp.token_f1 import TokenF1 as TokenF1
    from dokimos.evaluators._nlp.wer import WordErrorRate as WordErrorRate
    from dokimos.evaluators._numeric import Numeric as Numeric
    from dokimos.evaluators._rag.answer_relevancy import AnswerRelevancy as AnswerRelevancy
    from dokimos.evaluators._rag.citation_faithfulness import CitationFaithfulness as CitationFaithfulness
    from dokimos.evaluators._rag.context_sufficiency import ContextSufficiency as ContextSufficiency
    from dokimos.evaluators._rag.contextual_precision import ContextualPrecision as ContextualPrecision
    from dokimos.evaluators._rag.contextual_recall import ContextualRecall as ContextualRecall
    from dokimos.evaluators._rag.contextual_relevance import ContextualRelevance as ContextualRelevance
    from dokimos.evaluators._rag.faithfulness import Faithfulness as Faithfulness
    from dokimos.evaluators._rag.hallucination import Hallucination as Hallucination
    from dokimos.evaluators._rag.noise_sensitivity import NoiseSensitivity as NoiseSensitivity
    from dokimos.evaluators._resource_limits import Cost as Cost
    from dokimos.evaluators._resource_limits import Latency as Latency
    from dokimos.evaluators._resource_limits import Length as Length
    from dokimos.evaluators._resource_limits import Tokens as Tokens
    from dokimos.evaluators._retrieval.matching import all_of as all_of
    from dokimos.evaluators._retrieval.matching import any_of as any_of
    from dokimos.evaluators._retrieval.matching import by_field as by_field
    from dokimos.evaluators._retrieval.matching import by_fields as by_fields
    from dokimos.evaluators._retrieval.matching import by_identifier as by_identifier
    from dokimos.evaluators._retrieval.matching import containment as containment
    from dokimos.evaluators._retrieval.matching import equality as equality
    from dokimos.evaluators._retrieval.matching import ignore_case as ignore_case
    from dokimos.evaluators._retrieval.matching import llm_based as llm_based
    from dokimos.evaluators._retrieval.ranking_metrics import MRR as MRR
    from dokimos.evaluators._retrieval.ranking_metrics import NDCG as NDCG
    from dokimos.evaluators._retrieval.ranking_metrics import HitRate as HitRate
    from dokimos.evaluators._retrieval.ranking_metrics import Precision as Precision
    from dokimos.evaluators._retrieval.ranking_metrics import Recall as Recall
    from dokimos.evaluators._set_match import SetMatch as SetMatch
    from dokimos.evaluators._structural import StructuralMatch as StructuralMatch
    from dokimos.evaluators._text import Contains as Contains
    from dokimos.evaluators._text import Equality as Equality
    from dokimos.evaluators._text import ExactMatch as ExactMatch
    from dokimos.evaluators._text import Levenshtein as Levenshtein
    from dokimos.evaluators._text import Regex as Regex

_TARGET_OF: Final[dict[str, str]] = {
    "Evaluator": "dokimos.evaluators._base:Evaluator",
    "one_of": "dokimos.evaluators._agent.accepted_values:one_of",
    "ArgumentMatcher": "dokimos.evaluators._agent.argument_matching:ArgumentMatcher",
    "evaluator": "dokimos.evaluators._function:evaluator",
    "CRITERIA": "dokimos.evaluators._conversation.criteria:CRITERIA",
    "Criterion": "dokimos.evaluators._conversation.criteria:Criterion",
    **{
        name: f"dokimos.evaluators._retrieval.matching:{name}"
        for name in (
            "all_of",
            "any_of",
            "by_field",
            "by_fields",
            "by_identifier",
            "containment",
            "equality",
            "ignore_case",
            "llm_based",
        )
    },
    "Calibration": "dokimos.evaluators._calibration_result:Calibration",
    "LabelledVerdict": "dokimos.evaluators._labelled_verdicts:LabelledVerdict",
    "calibrate": "dokimos.evaluators._calibration:calibrate",
    "calibrate_async": "dokimos.evaluators._calibration:calibrate_async",
    "compare_pairwise": "dokimos.evaluators._llm.compare_pairwise:compare_pairwise",
    "compare_pairwise_async": "dokimos.evaluators._llm.compare_pairwise:compare_pairwise_async",
    "GradedExample": "dokimos.evaluators._llm.rating:GradedExample",
    "PairwiseReport": "dokimos.evaluators._llm.compare_pairwise:PairwiseReport",
    **{target.rpartition(":")[2]: target for target in BUILT_IN.values()},
}

__all__ = [  # written out, since type checkers do not run it
    "CRITERIA",
    "MRR",
    "NDCG",
    "AnswerRelevancy",
    "ArgumentMatcher",
    "Bias",
    "Bleu",
    "Calibration",
    "Chrf",
    "CitationFaithfulness",
    "Coherence",
    "Completeness",
    "Conciseness",
    "Contains",
    "ContextSufficiency",
    "ContextualPrecision",
    "ContextualRecall",
    "ContextualRelevance",
    "ConversationCompleteness",
    "Correctness",
    "Cost",
    "Criterion",
    "EmbeddingSimilarity",
    "Equality",
    "Evaluator",
    "ExactMatch",
    "Faithfulness",
    "ForbiddenTools",
    "FunctionEvaluator",
    "GEval",
    "GradedExample",
    "Hallucination",
    "Helpfulness",
    "HitRate",
    "InjectionResistance",
    "InstructionFollowing",
    "JsonSchema",
    "Jury",
    "KnowledgeRetention",
    "LLMJudge",
    "LabelledVerdict",
    "Latency",
    "Length",
    "Levenshtein",
    "MaxToolCalls",
    "Meteor",
    "Misuse",
    "NoiseSensitivity",
    "Numeric",
    "PIILeakage",
    "Pairwise",
    "PairwiseReport",
    "PerTurn",
    "PlanAdherence",
    "PlanQuality",
    "Precision",
    "Recall",
    "Refusal",
    "Regex",
    "RoleAdherence",
    "Rouge",
    "SetMatch",
    "StepEfficiency",
    "StructuralMatch",
    "Summarisation",
    "TaskCompletion",
    "TokenF1",
    "Tokens",
    "Tone",
    "ToolArgumentHallucination",
    "ToolCallValidity",
    "ToolCorrectness",
    "ToolDescriptionReliability",
    "ToolEfficiency",
    "ToolErrors",
    "ToolGraph",
    "ToolNameReliability",
    "ToolSelection",
    "ToolTrajectory",
    "Toxicity",
    "Trajectory",
    "TurnRelevance",
    "UserFrustration",
    "WordErrorRate",
    "all_of",
    "any_of",
    "by_field",
    "by_fields",
    "by_identifier",
    "calibrate",
    "calibrate_async",
    "compare_pairwise",
    "compare_pairwise_async",
    "containment",
    "equality",
    "evaluator",
    "ignore_case",
    "llm_based",
    "one_of",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist

    def __getattr__(name: str) -> Any:
        target = _TARGET_OF.get(name)
        if target is None:
            raise AttributeError(f"module 'dokimos.evaluators' has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(target.rpartition(":")[0]), name)
        return found


def __dir__() -> list[str]:
    return names_for_completion(globals())

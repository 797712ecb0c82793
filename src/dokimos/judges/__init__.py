"""Language models as judges, embedders, and what records, caches and limits their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos._http.client import close_sessions as close_sessions
    from dokimos.judges._anthropic import AnthropicMessages as AnthropicMessages
    from dokimos.judges._ask import ask as ask
    from dokimos.judges._attack.corpus import corpus as corpus
    from dokimos.judges._attack.runner import attack as attack
    from dokimos.judges._budget import Budget as Budget
    from dokimos.judges._cassette import with_cassette as with_cassette
    from dokimos.judges._cassette_mode import CassetteMode as CassetteMode
    from dokimos.judges._completion import Completion as Completion
    from dokimos.judges._completion import TokenCounts as TokenCounts
    from dokimos.judges._embedding_models import embedder as embedder
    from dokimos.judges._embeddings import Embedder as Embedder
    from dokimos.judges._embeddings import Embeddings as Embeddings
    from dokimos.judges._embeddings import as_embedder as as_embedder
    from dokimos.judges._embeddings import embed as embed
    from dokimos.judges._factory import judge as judge
    from dokimos.judges._gemini import Gemini as Gemini
    from dokimos.judges._model_request import Home as Home
    from dokimos.judges._model_request import ModelRequest as ModelRequest
    from dokimos.judges._model_task import model_task as model_task
    from dokimos.judges._ollama import OllamaNative as OllamaNative
    from dokimos.judges._openai import AzureOpenAI as AzureOpenAI
    from dokimos.judges._openai import ChatCompletions as ChatCompletions
    from dokimos.judges._openai import OpenAIChat as OpenAIChat
    from dokimos.judges._openai import OpenAIResponses as OpenAIResponses
    from dokimos.judges._openai_compatible import Groq as Groq
    from dokimos.judges._openai_compatible import Mistral as Mistral
    from dokimos.judges._openai_compatible import OpenRouter as OpenRouter
    from dokimos.judges._openai_compatible import Together as Together
    from dokimos.judges._optional_protocols import AsyncClosable as AsyncClosable
    from dokimos.judges._optional_protocols import Batches as Batches
    from dokimos.judges._optional_protocols import CountsOwnCalls as CountsOwnCalls
    from dokimos.judges._optional_protocols import HasCallStores as HasCallStores
    from dokimos.judges._optional_protocols import Identified as Identified
    from dokimos.judges._optional_protocols import PricesCalls as PricesCalls
    from dokimos.judges._optional_protocols import WithLogprobs as WithLogprobs
    from dokimos.judges._optional_protocols import WrapsJudge as WrapsJudge
    from dokimos.judges._prices import Prices as Prices
    from dokimos.judges._prices import Rate as Rate
    from dokimos.judges._prices import from_genai_prices as from_genai_prices
    from dokimos.judges._protocol import JudgeLM as JudgeLM
    from dokimos.judges._protocol import JudgeReply as JudgeReply
    from dokimos.judges._protocol import TokenLogprob as TokenLogprob
    from dokimos.judges._protocol import as_judge as as_judge
    from dokimos.judges._provider import HttpJudge as HttpJudge

_MODULE_OF: Final = {
    "AnthropicMessages": "dokimos.judges._anthropic",
    "AsyncClosable": "dokimos.judges._optional_protocols",
    "AzureOpenAI": "dokimos.judges._openai",
    "Batches": "dokimos.judges._optional_protocols",
    "Budget": "dokimos.judges._budget",
    "CassetteMode": "dokimos.judges._cassette_mode",
    "ChatCompletions": "dokimos.judges._openai",
    "Completion": "dokimos.judges._completion",
    "CountsOwnCalls": "dokimos.judges._optional_protocols",
    "Embedder": "dokimos.judges._embeddings",
    "Embeddings": "dokimos.judges._embeddings",
    "Gemini": "dokimos.judges._gemini",
    "Groq": "dokimos.judges._openai_compatible",
    "HasCallStores": "dokimos.judges._optional_protocols",
    "Home": "dokimos.judges._model_request",
    "HttpJudge": "dokimos.judges._provider",
    "Identified": "dokimos.judges._optional_protocols",
    "JudgeLM": "dokimos.judges._protocol",
    "JudgeReply": "dokimos.judges._protocol",
    "Mistral": "dokimos.judges._openai_compatible",
    "ModelRequest": "dokimos.judges._model_request",
    "OllamaNative": "dokimos.judges._ollama",
    "OpenAIChat": "dokimos.judges._openai",
    "OpenAIResponses": "dokimos.judges._openai",
    "OpenRouter": "dokimos.judges._openai_compatible",
    "Prices": "dokimos.judges._prices",
    "PricesCalls": "dokimos.judges._optional_protocols",
    "Rate": "dokimos.judges._prices",
    "Together": "dokimos.judges._openai_compatible",
    "TokenCounts": "dokimos.judges._completion",
    "TokenLogprob": "dokimos.judges._protocol",
    "WithLogprobs": "dokimos.judges._optional_protocols",
    "WrapsJudge": "dokimos.judges._optional_protocols",
    "as_embedder": "dokimos.judges._embeddings",
    "as_judge": "dokimos.judges._protocol",
    "ask": "dokimos.judges._ask",
    "attack": "dokimos.judges._attack.runner",
    "close_sessions": "dokimos._http.client",
    "corpus": "dokimos.judges._attack.corpus",
    "embed": "dokimos.judges._embeddings",
    "embedder": "dokimos.judges._embedding_models",
    "from_genai_prices": "dokimos.judges._prices",
    "judge": "dokimos.judges._factory",
    "model_task": "dokimos.judges._model_task",
    "with_cassette": "dokimos.judges._cassette",
}
__all__ = [
    "AnthropicMessages",
    "AsyncClosable",
    "AzureOpenAI",
    "Batches",
    "Budget",
    "CassetteMode",
    "ChatCompletions",
    "Completion",
    "CountsOwnCalls",
    "Embedder",
    "Embeddings",
    "Gemini",
    "Groq",
    "HasCallStores",
    "Home",
    "HttpJudge",
    "Identified",
    "JudgeLM",
    "JudgeReply",
    "Mistral",
    "ModelRequest",
    "OllamaNative",
    "OpenAIChat",
    "OpenAIResponses",
    "OpenRouter",
    "Prices",
    "PricesCalls",
    "Rate",
    "Together",
    "TokenCounts",
    "TokenLogprob",
    "WithLogprobs",
    "WrapsJudge",
    "as_embedder",
    "as_judge",
    "ask",
    "attack",
    "close_sessions",
    "corpus",
    "embed",
    "embedder",
    "from_genai_prices",
    "judge",
    "model_task",
    "with_cassette",
]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)

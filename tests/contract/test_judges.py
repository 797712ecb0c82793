"""Our judges keep the contract that those of other packages are tested against."""

import pytest

from dokimos import CallMetrics, JudgeReply
from dokimos.errors import JudgeUnavailableError
from dokimos.judges import (
    AnthropicMessages,
    AzureOpenAI,
    Gemini,
    Groq,
    Mistral,
    OllamaNative,
    OpenAIChat,
    OpenAIResponses,
    OpenRouter,
    Together,
    with_cassette,
)
from dokimos.judges._capabilities import forget_capabilities
from dokimos.testing.contracts import HttpJudgeContract, JudgeContract


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "DOKIMOS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    yield
    forget_capabilities()


class ChatCompletions(HttpJudgeContract):
    """Reply and schema are those that the contract comes with."""

    passes_schemas = True


class TestOpenAIChat(ChatCompletions):
    judge_class = OpenAIChat


class TestMistral(ChatCompletions):
    judge_class = Mistral


class TestOpenRouter(ChatCompletions):
    judge_class = OpenRouter


class TestGroq(ChatCompletions):
    judge_class = Groq


class TestTogether(ChatCompletions):
    judge_class = Together


class TestAzure(ChatCompletions):
    judge_class = AzureOpenAI


class TestOpenAIResponses(HttpJudgeContract):
    judge_class = OpenAIResponses
    passes_schemas = True

    def reply_body(self, text, tokens_in, tokens_out):
        content = [{"type": "output_text", "text": text}]
        return {
            "status": "completed",
            "output": [{"type": "message", "role": "assistant", "content": content}],
            "usage": {"input_tokens": tokens_in, "output_tokens": tokens_out},
        }

    def find_schema(self, body):
        return body.get("text", {}).get("format", {}).get("schema")


class TestAnthropic(HttpJudgeContract):
    judge_class = AnthropicMessages
    passes_schemas = True

    def reply_body(self, text, tokens_in, tokens_out):
        return {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": tokens_in, "output_tokens": tokens_out},
        }

    def find_schema(self, body):
        return body.get("output_config", {}).get("format", {}).get("schema")


class TestGemini(HttpJudgeContract):
    judge_class = Gemini
    passes_schemas = True

    def reply_body(self, text, tokens_in, tokens_out):
        return {
            "candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": tokens_in, "candidatesTokenCount": tokens_out},
        }

    def find_schema(self, body):
        return body.get("generationConfig", {}).get("responseJsonSchema")


class TestOllama(HttpJudgeContract):
    judge_class = OllamaNative
    passes_schemas = True

    def reply_body(self, text, tokens_in, tokens_out):
        return {
            "message": {"role": "assistant", "content": text},
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": tokens_in,
            "eval_count": tokens_out,
        }

    def find_schema(self, body):
        return body.get("format")


def answer(prompt):
    return '{"verdict": "yes", "reason": "It says so."}'


async def answer_in_another_way(prompt):
    return JudgeReply("no", CallMetrics(3, 1))


def refuse(prompt):
    raise JudgeUnavailableError("The endpoint is down.")


class TestFunction(JudgeContract):
    def make_judge(self):
        return answer

    def make_other_judge(self):
        return answer_in_another_way

    def make_failing_judge(self):
        return refuse


class TestCassette(JudgeContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.path = tmp_path / "replies.json"

    def make_judge(self):
        return with_cassette(answer, self.path)

    def make_other_judge(self):
        return with_cassette(answer_in_another_way, self.path)

    def make_failing_judge(self):
        return with_cassette(refuse, self.path)

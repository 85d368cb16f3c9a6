"""Who may be asked: anything behind an OpenAI-compatible endpoint, a Bedrock model, or a script."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from typing import Any, Protocol

from bench.edit_eval.tasks import Task

ANSWER_TOKENS = 1_000
PATIENCE_SECONDS = 180


@dataclass(frozen=True)
class Call:
    """A tool call as the model made it; ``arguments`` may be what the endpoint sent, a JSON text included."""

    tool: str
    arguments: Any


@dataclass(frozen=True)
class Conversation:
    """What a model gets: instructions, the wish, and one read_file call with its result. ``attempt`` counts from 0."""

    task: Task
    attempt: int
    instructions: str
    wish: str
    read_arguments: dict[str, Any]
    read_result: str
    catalogue: dict[str, list[dict[str, Any]]]


class Model(Protocol):
    """Answers a conversation with tool calls."""

    @property
    def name(self) -> str:
        """How the measurements call it."""

    def calls(self, conversation: Conversation) -> list[Call]:
        """The calls of one answer, none when it only talked. Raises EndpointFailed."""


class EndpointFailed(Exception):
    """The endpoint gave no answer that can be read; the trial says nothing about the model."""


class OpenAIModel:
    """A model behind ``<url>/chat/completions``."""

    def __init__(self, url: str, name: str, key: str = "", temperature: float | None = None) -> None:
        self.name = name
        self._url = url.rstrip("/") + "/chat/completions"
        self._key = key
        self._temperature = temperature

    def calls(self, conversation: Conversation) -> list[Call]:
        read = {"name": "read_file", "arguments": json.dumps(conversation.read_arguments)}
        body: dict[str, Any] = {
            "model": self.name,
            "max_tokens": ANSWER_TOKENS,
            "tools": conversation.catalogue["openai"],
            "messages": [
                {"role": "system", "content": conversation.instructions},
                {"role": "user", "content": conversation.wish},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "read_1", "type": "function", "function": read}],
                },
                {"role": "tool", "tool_call_id": "read_1", "content": conversation.read_result},
            ],
        }
        if self._temperature is not None:
            body["temperature"] = self._temperature
        answer = self._post(body)
        try:
            made = answer["choices"][0]["message"].get("tool_calls") or []
            return [Call(call["function"]["name"], call["function"]["arguments"]) for call in made]
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise EndpointFailed(f"the answer has not the shape of a chat completion: {error!r}") from error

    def _post(self, body: dict[str, Any]) -> Any:
        headers = {"content-type": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self._url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                return json.loads(answer.read())
        except (OSError, ValueError) as error:
            raise EndpointFailed(f"{self._url}: {error}") from error


class BedrockModel:
    """A model behind Bedrock's Converse API; ``client`` is a bedrock-runtime client."""

    def __init__(self, client: Any, name: str, temperature: float | None = None) -> None:
        self.name = name
        self._client = client
        self._temperature = temperature

    def calls(self, conversation: Conversation) -> list[Call]:
        read = {"toolUseId": "read_1", "name": "read_file", "input": conversation.read_arguments}
        result = {"toolUseId": "read_1", "content": [{"text": conversation.read_result}], "status": "success"}
        inference: dict[str, Any] = {"maxTokens": ANSWER_TOKENS}
        if self._temperature is not None:
            inference["temperature"] = self._temperature
        try:
            answer = self._client.converse(
                modelId=self.name,
                system=[{"text": conversation.instructions}],
                messages=[
                    {"role": "user", "content": [{"text": conversation.wish}]},
                    {"role": "assistant", "content": [{"toolUse": read}]},
                    {"role": "user", "content": [{"toolResult": result}]},
                ],
                inferenceConfig=inference,
                toolConfig={"tools": conversation.catalogue["bedrock"]},
            )
            blocks = answer["output"]["message"]["content"]
        except Exception as error:  # botocore's errors share no base with those of its transport
            raise EndpointFailed(f"Bedrock: {error}") from error
        used = [block["toolUse"] for block in blocks if "toolUse" in block]
        return [Call(use["name"], use["input"]) for use in used]

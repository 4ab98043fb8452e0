"""What answers say: OpenAI's objects, with usage and metrics beside them.

Facts about speculation have the names of vLLM's `metrics.speculative_decoding`.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from leapdecode.core import TokenLogprobs
from leapdecode.llm.detokenize import TokenTexts
from leapdecode.llm.result import Piece, Result

Document = dict[str, Any]


class Writer:
    """Writes the documents of one request.

    Args:
        model: its name in answers.
        tokenizer: shows tokens as text, for log-probabilities.
    """

    prefix = kind = chunk_kind = ""

    def __init__(self, model: str, tokenizer: Any) -> None:
        self.tokens = TokenTexts(tokenizer)
        self.head: Document = {
            "id": f"{self.prefix}-{uuid.uuid4().hex}",
            "object": self.kind,
            "created": int(time.time()),
            "model": model,
        }

    def whole(self, results: Sequence[Result], samples: int) -> Document:
        """The answer to a request that is not streamed."""
        choices = [self.choice(number, result) for number, result in enumerate(results)]
        return {**self.head, "choices": choices, **self.facts(results, samples)}

    def facts(self, results: Sequence[Result], samples: int) -> Document:
        """Usage, metrics, whether the texts are exact, and traces where they were asked for."""
        said: Document = {
            "usage": usage(results, samples),
            "metrics": {"speculative_decoding": speculation(results)},
            "exact": all(result.exact for result in results),
        }
        traces = [result.artifacts["trace"] for result in results if "trace" in result.artifacts]
        if traces:
            said["explain"] = traces
        return said

    def chunk(self, choices: list[Document], **more: Any) -> Document:
        """A part of a streamed answer."""
        return {**self.head, "object": self.chunk_kind, "choices": choices, **more}

    def choice(self, number: int, result: Result) -> Document:
        """A whole text."""
        raise NotImplementedError

    def opening(self, number: int) -> Document | None:
        """What a streamed text begins with, if there is anything."""
        return None

    def part(self, number: int, pieces: Sequence[Piece], ended: str | None) -> Document:
        """Some pieces of a streamed text, and why it has ended, if it has."""
        raise NotImplementedError

    def shown(self, token: int) -> str:
        """A token as text; part of a character in OpenAI's form, as `bytes:\\xf0\\x9f`."""
        raw = self.raw(token)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{one:02x}" for one in raw)

    def raw(self, token: int) -> bytes:
        """A token's bytes."""
        return self.tokens.bytes(token)


class CompletionWriter(Writer):
    """`text_completion` objects."""

    prefix, kind, chunk_kind = "cmpl", "text_completion", "text_completion"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.offsets = Counter[int]()  # by text, its characters so far

    def choice(self, number: int, result: Result) -> Document:
        texts = result.pieces
        return self._said(number, result.text, result.logprobs or [], texts, result.finish_reason)

    def part(self, number: int, pieces: Sequence[Piece], ended: str | None) -> Document:
        texts = [piece.text for piece in pieces]
        return self._said(number, "".join(texts), logprobs_of(pieces), texts, ended)

    def _said(
        self, number: int, text: str, logprobs: Sequence[TokenLogprobs], texts: Sequence[str],
        ended: str | None,
    ) -> Document:  # fmt: skip
        document: Document = {"index": number, "text": text, "logprobs": None}
        if logprobs:
            starts = []
            for piece in texts:
                starts.append(self.offsets[number])
                self.offsets[number] += len(piece)
            document["logprobs"] = {
                "tokens": [self.shown(one.token_id) for one in logprobs],
                "token_logprobs": [one.logprob for one in logprobs],
                "top_logprobs": [
                    {self.shown(token): value for token, value in one.top.items()}
                    for one in logprobs
                ],
                "text_offset": starts,
            }
        document["finish_reason"] = ended
        return document


class ChatWriter(Writer):
    """`chat.completion` objects."""

    prefix, kind, chunk_kind = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def choice(self, number: int, result: Result) -> Document:
        message = {"role": "assistant", "content": result.text, "refusal": None}
        document: Document = {"index": number, "message": message}
        document["logprobs"] = self._logprobs(result.logprobs or [])
        document["finish_reason"] = result.finish_reason
        return document

    def opening(self, number: int) -> Document | None:
        delta = {"role": "assistant", "content": "", "refusal": None}
        return {"index": number, "delta": delta, "logprobs": None, "finish_reason": None}

    def part(self, number: int, pieces: Sequence[Piece], ended: str | None) -> Document:
        text = "".join(piece.text for piece in pieces)
        return {
            "index": number,
            "delta": {"content": text} if text or not ended else {},
            "logprobs": self._logprobs(logprobs_of(pieces)),
            "finish_reason": ended,
        }

    def _logprobs(self, found: Sequence[TokenLogprobs]) -> Document | None:
        if not found:
            return None
        content = []
        for one in found:
            top = [self._token(token, value) for token, value in one.top.items()]
            content.append({**self._token(one.token_id, one.logprob), "top_logprobs": top})
        return {"content": content, "refusal": None}

    def _token(self, token: int, logprob: float) -> Document:
        return {"token": self.shown(token), "logprob": logprob, "bytes": list(self.raw(token))}


def logprobs_of(pieces: Iterable[Piece]) -> list[TokenLogprobs]:
    """Those of pieces that have some."""
    return [piece.logprobs for piece in pieces if piece.logprobs is not None]


def usage(results: Sequence[Result], samples: int) -> Mapping[str, Any]:
    """Tokens of a request: a prompt counts once, however many samples it has."""
    prompt = sum(len(result.prompt_token_ids) for result in results[::samples])
    generated = sum(len(result.token_ids) for result in results)
    steps = sum(len(result.steps) for result in results)
    cached = sum(result.stats.reused_tokens for result in results[::samples])
    return {
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
        "prompt_tokens_details": {"cached_tokens": cached},
        "tokens_per_forward": round(generated / steps, 4) if steps else 0.0,
    }


def speculation(results: Sequence[Result]) -> Mapping[str, Any]:
    """What guesses brought, over all texts of a request."""
    steps = [step for result in results for step in result.steps if step.tokens]
    accepted = [len(step.tokens) - 1 for step in steps]
    guessed = sum(sum(step.guesses.values()) for step in steps)
    histogram = Counter(accepted)
    return {
        "mean_acceptance_length": round(1 + sum(accepted) / len(steps), 4) if steps else 0.0,
        "draft_acceptance_rate": round(sum(accepted) / guessed, 4) if guessed else 0.0,
        "acceptance_histogram": [histogram[n] for n in range(max(accepted, default=0) + 1)],
        "num_spec_steps": len(steps),
        "num_accepted_draft_tokens": sum(accepted),
        "num_draft_tokens": guessed,
    }

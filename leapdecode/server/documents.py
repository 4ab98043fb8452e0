"""The documents of answers: OpenAI's objects, with usage and metrics beside them.

Facts about speculation have the names of vLLM's `metrics.speculative_decoding`.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from leapdecode.core import TokenLogprobs
from leapdecode.llm.detokenize import TokenTexts
from leapdecode.llm.result import Piece, Result

Document = dict[str, Any]
PIECE = 1 << 16  # characters of a document that are written at a time


class Rows:
    """Values that are made when they are written, as an array: a long answer's tokens, say.

    All of them at once would take hundreds of MiB, and seconds in which nothing else goes on.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        self.values = values

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)


def dumped(value: Any) -> str:
    """A value as JSON, all at once."""
    return json.dumps(value, ensure_ascii=False, default=list)


def pieces_of(document: Document) -> Iterator[str]:
    """A document as JSON, in pieces of about `PIECE` characters."""
    parts, size = list[str](), 0
    for part in _parts(document):
        parts.append(part)
        size += len(part)
        if size >= PIECE:
            yield "".join(parts)
            parts, size = [], 0
    yield "".join(parts)


def _parts(value: Any) -> Iterator[str]:
    """JSON by its parts; what stands in `Rows` is a part of its own each, whatever else is one."""
    if isinstance(value, dict):
        for number, (key, inside) in enumerate(value.items()):
            yield f"{', ' if number else '{'}{dumped(key)}: "
            yield from _parts(inside)
        yield "}" if value else "{}"
    elif isinstance(value, Rows | Choices):
        start = "["
        for inside in value:
            yield start
            yield from _parts(inside) if isinstance(value, Choices) else (dumped(inside),)
            start = ", "
        yield "]" if start == ", " else "[]"
    else:
        yield dumped(value)


class Choices(list[Any]):
    """The texts of an answer, which have `Rows` inside."""


class Writer:
    """Writes the documents of one request.

    Args:
        model: its name in answers.
        tokenizer: shows tokens as text, for log-probabilities.
    """

    prefix = kind = chunk_kind = ""

    def __init__(self, model: str, tokenizer: Any) -> None:
        self.tokens = TokenTexts(tokenizer)
        self.known = dict[int, tuple[str, bytes]]()  # tokens as text and bytes
        self.head: Document = {
            "id": f"{self.prefix}-{uuid.uuid4().hex}",
            "object": self.kind,
            "created": int(time.time()),
            "model": model,
        }

    def whole(self, results: Sequence[Result], samples: int) -> Document:
        """The answer to a request that is not streamed."""
        choices = Choices(self.choice(number, result) for number, result in enumerate(results))
        return {**self.head, "choices": choices, **self.facts(results, samples)}

    def facts(self, results: Sequence[Result], samples: int) -> Document:
        """Usage, metrics, whether the texts are exact, and traces where they were asked for."""
        facts: Document = {
            "usage": usage(results, samples),
            "metrics": {"speculative_decoding": speculation(results)},
            "exact": all(result.exact for result in results),
        }
        traces = [result.artifacts["trace"] for result in results if "trace" in result.artifacts]
        if traces:
            steps = [{**trace, "steps": Rows(trace["steps"])} for trace in traces]
            facts["explain"] = Choices(steps)
        return facts

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
        return self._known(token)[0]

    def raw(self, token: int) -> bytes:
        """A token's bytes."""
        return self._known(token)[1]

    def _known(self, token: int) -> tuple[str, bytes]:
        known = self.known.get(token)
        if known is None:
            raw = self.tokens.bytes(token)
            try:
                text = raw.decode()
            except UnicodeDecodeError:
                text = "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
            known = self.known[token] = text, raw
        return known


class CompletionWriter(Writer):
    """`text_completion` objects."""

    prefix, kind, chunk_kind = "cmpl", "text_completion", "text_completion"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.offsets = Counter[int]()  # by text, its characters so far

    def choice(self, number: int, result: Result) -> Document:
        texts = result.pieces
        return self._choice(number, result.text, result.logprobs or [], texts, result.finish_reason)

    def part(self, number: int, pieces: Sequence[Piece], ended: str | None) -> Document:
        texts = [piece.text for piece in pieces]
        return self._choice(number, "".join(texts), logprobs_of(pieces), texts, ended)

    def _choice(
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
                "tokens": Rows(self.shown(token.token_id) for token in logprobs),
                "token_logprobs": Rows(token.logprob for token in logprobs),
                "top_logprobs": Rows(
                    {self.shown(likely): logprob for likely, logprob in token.top.items()}
                    for token in logprobs
                ),
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

    def _logprobs(self, logprobs: Sequence[TokenLogprobs]) -> Document | None:
        if not logprobs:
            return None
        return {"content": Rows(map(self._described, logprobs)), "refusal": None}

    def _described(self, token: TokenLogprobs) -> Document:
        top = [self._token(likely, logprob) for likely, logprob in token.top.items()]
        return {**self._token(token.token_id, token.logprob), "top_logprobs": top}

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

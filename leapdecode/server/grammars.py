"""Answers that follow a JSON schema, a regular expression or a grammar: masks at every node.

A guess is scored behind its own path, so its mask is the grammar's state there, not the text's
(masking all nodes by the text's state would refuse right guesses and accept wrong ones). The masks
come from llguidance.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from leapdecode.errors import OptionError
from leapdecode.model.sequence_cache import common_prefix
from leapdecode.plain import one_line

if TYPE_CHECKING:
    from leapdecode.llm.llm import LLM
    from leapdecode.server.bodies import ChatCompletion, Completion

NEVER = float("-inf")
SPACES = r"\n? {0,8}"  # between the parts of JSON: some models would write spaces for ever


def grammar_of(body: Completion | ChatCompletion) -> str | None:
    """The grammar that an answer is to follow, in llguidance's form; None: it is free.

    Raises `OptionError`.
    """
    wanted, structure = body.response_format, body.structured_outputs
    if wanted is not None and wanted.type != "text" and structure is not None:
        raise OptionError("give response_format or structured_outputs, not both")
    if wanted is not None and wanted.type == "json_object":
        return _json({"type": "object"})
    if wanted is not None and wanted.json_schema is not None:
        return _json(wanted.json_schema.json_schema)
    if structure is None:
        return None
    if structure.json_ is not None:
        return _json(structure.json_)
    if structure.choice is not None:
        choices = " | ".join(json.dumps(one) for one in structure.choice)
        return json.dumps({"grammars": [{"lark_grammar": f"start: {choices}"}]})
    if structure.regex is not None:
        return str(_matcher().grammar_from_regex(structure.regex))
    return json.dumps({"grammars": [{"lark_grammar": structure.grammar}]})


def _json(schema: dict[str, Any]) -> str:
    given = {**schema, "x-guidance": {"whitespace_pattern": SPACES}}
    return str(_matcher().grammar_from_json_schema(json.dumps(given)))


def _matcher() -> Any:
    """The class of llguidance; raises `OptionError` where it is not installed."""
    try:
        from llguidance import LLMatcher
    except ImportError as error:
        raise OptionError(
            "an answer's form needs the package llguidance: pip install -e '.[serve]'"
        ) from error
    return LLMatcher


class Grammars:
    """Makes the logits processors of a model's grammars."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm
        self.tokenizer: Any = None

    def prepare(self) -> None:
        """Read the tokenizer now, where it can be read; that takes long for large ones."""
        with suppress(OptionError):
            self._known()

    def start(self, grammar: str) -> Any:
        """llguidance's matcher before the first token; raises `OptionError` for a wrong grammar."""
        start: Any = None
        try:
            wrong = _matcher().validate_grammar(grammar, self._known())
            if not wrong:
                start = _matcher()(self._known(), grammar)
                wrong = start.get_error() if start.is_error() else ""
        except (ValueError, TypeError) as error:
            wrong = str(error)
        if wrong:
            raise OptionError(f"the answer's form cannot be used: {one_line(wrong)[:500]}")
        return start

    def bytes_of(self, token: int) -> bytes | None:
        """A token's bytes; None where the tokenizer was not read."""
        return None if self.tokenizer is None else bytes(self.tokenizer.decode_bytes([token]))

    def _known(self) -> Any:
        """The tokenizer, as llguidance knows it."""
        if self.tokenizer is None:
            self.tokenizer = self._tokenizer()
        return self.tokenizer

    def _tokenizer(self) -> Any:
        from llguidance.hf import from_tokenizer

        try:
            return from_tokenizer(
                self.llm.tokenizer, self.llm.runner.vocabulary, sorted(self.llm.end_tokens)
            )
        except Exception as error:  # the package raises what it likes for one it does not know
            raise OptionError(
                f"answers of a given form do not work with this model's tokenizer: {error}"
            ) from error


class Grammar:
    """A logits processor: tokens that the grammar forbids behind a path get no chance.

    Shapes: ids [N, length], logits [N, V].

    Args:
        start: llguidance's matcher before the first token of the answer.
        prompt_length: tokens of the prompt, which the grammar does not see.
    """

    def __init__(self, start: Any, prompt_length: int) -> None:
        self.start, self.prompt_length = start, prompt_length
        self.matcher = start.deep_copy()
        self.text: list[int] = []  # what the matcher has read

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        masked = logits.clone()
        for row, answer in enumerate(ids[:, self.prompt_length :].tolist()):
            if self._go_to(answer):
                allowed = self._allowed(logits.shape[-1]).to(logits.device)
                masked[row].masked_fill_(~allowed, NEVER)
        return masked

    def _allowed(self, vocabulary: int) -> Tensor:
        """[V] whether a token may follow."""
        bits = torch.frombuffer(bytearray(self.matcher.compute_bitmask()), dtype=torch.uint8)
        if self.matcher.is_error():  # it has grown too large, and says nothing right any more
            said = one_line(self.matcher.get_error())[:300]
            raise OptionError(f"the answer's form is too much for llguidance: {said}")
        places = torch.arange(8, dtype=torch.uint8)
        return (bits[:, None] >> places & 1).bool().reshape(-1)[:vocabulary]

    def _go_to(self, answer: list[int]) -> bool:
        """Bring the matcher behind an answer; False where no answer begins like that."""
        shared = common_prefix(self.text, answer)
        if shared < len(self.text):
            if not self.matcher.rollback(len(self.text) - shared):
                self.matcher, shared = self.start.deep_copy(), 0
            self.text = answer[:shared]
        read = self.matcher.try_consume_tokens(answer[shared:])
        self.text = answer[: shared + read]
        return len(self.text) == len(answer)

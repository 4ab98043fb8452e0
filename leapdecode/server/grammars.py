"""Answers that follow a JSON schema, a regular expression or a grammar: masks at every node.

A guess is scored behind its own path, so its mask is the grammar's state there, not the text's
(masking all nodes by the text's state would refuse right guesses and accept wrong ones). The masks
come from llguidance.

Clients may send grammars that take minutes to compile, gigabytes of memory, or the process. So a
grammar is first compiled in another process under limits (`grammar_child.py`), and what follows in
this one is limited too: fuel for every mask, and processor time for all masks of a text.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leapdecode.errors import OptionError
from leapdecode.llm.llm import LLM
from leapdecode.model.sequence_cache import common_prefix
from leapdecode.plain import one_line
from leapdecode.server.bodies import ChatCompletion, Completion
from leapdecode.server.failures import LOGGER

NEVER = float("-inf")
CHILD = Path(__file__).with_name("grammar_child.py")
MOST_CHARACTERS = 200_000  # of a grammar; long constants make every mask slow
# of llguidance, per mask; a mask that uses all of it takes a quarter of a second
LIMITS: dict[str, Any] = {
    "step_lexer_fuel": 50_000,
    "step_max_items": 20_000,
    "verbose_errors": False,
}
TRIAL_SECONDS, TRIAL_MEMORY = 2, 512  # of processor time, MiB
TRIAL_WAIT = 60.0  # seconds; a child that neither answers nor computes is ended
CACHED = 16  # forms whose compiled grammars are kept
MASK_SECONDS = 0.01  # of processor time for a mask; what goes beyond it adds up
MASKS_BEYOND = 2.0  # seconds beyond that for all masks of a text
RENEWED_SECONDS = 0.5  # a grammar that took longer to compile is not compiled while texts wait
SPACES = r"\n? {0,8}"  # between the parts of JSON: some models would write spaces for ever


def grammar_of(body: Completion | ChatCompletion) -> str | None:
    """The grammar that an answer is to follow, in llguidance's form; None: it is free.

    Raises `OptionError`.
    """
    response_format = body.response_format
    structure = body.structured_outputs
    if response_format is not None and response_format.type != "text" and structure is not None:
        raise OptionError("give response_format or structured_outputs, not both")
    if response_format is not None and response_format.type == "json_object":
        return _json({"type": "object"})
    if response_format is not None and response_format.json_schema is not None:
        return _json(response_format.json_schema.json_schema)
    if structure is None:
        return None
    if structure.json_ is not None:
        return _json(structure.json_)
    if structure.choice is not None:
        choices = " | ".join(json.dumps(choice) for choice in structure.choice)
        return json.dumps({"grammars": [{"lark_grammar": f"start: {choices}"}]})
    if structure.regex is not None:
        return str(_matcher().grammar_from_regex(structure.regex))
    return json.dumps({"grammars": [{"lark_grammar": structure.grammar}]})


def _json(schema: dict[str, Any]) -> str:
    schema = {**schema, "x-guidance": {"whitespace_pattern": SPACES}}
    return str(_matcher().grammar_from_json_schema(json.dumps(schema)))


def _matcher() -> Any:
    """The class of llguidance; raises `OptionError` where it is not installed."""
    try:
        from llguidance import LLMatcher
    except ImportError as error:
        raise OptionError(
            "an answer's form needs the package llguidance: pip install -e '.[serve]'"
        ) from error
    return LLMatcher


@dataclass
class Form:
    """A grammar that passed its trial.

    Texts that follow it share the automaton that llguidance builds while it reads. It grows, and
    has a limit. So a text whose matcher fails tries once more with a new one.

    Attributes:
        start: llguidance's matcher before the first token.
        seconds: of processor time that it took to compile.
        compile: makes another `start`.
    """

    start: Any
    seconds: float
    compile: Callable[[], Any]

    def renew(self, failed: Any) -> Any:
        """A matcher in place of one that failed, for all texts from now on; None where that takes
        too long.
        """
        if self.seconds > RENEWED_SECONDS:
            return None
        if self.start is failed:
            self.start = self.compile()
        return self.start


class Grammars:
    """Compiles the grammars of a model, and keeps those that were used last."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm
        self.tokenizer: Any = None
        self.trial: Trial | None = None
        self.cache: OrderedDict[str, Form | str] = OrderedDict()  # a str: why it cannot be used
        self.lock = threading.Lock()

    def prepare(self) -> None:
        """Read the tokenizer now, where it can be read; that takes long for large ones."""
        with suppress(OptionError):
            self._known()

    def known(self, grammar: str) -> bool:
        """Whether `form` answers at once."""
        with self.lock:
            return grammar in self.cache

    def form(self, grammar: str) -> Form:
        """The form of a grammar; may take seconds. Raises `OptionError` for one that cannot be
        used.
        """
        with self.lock:
            form = self.cache.get(grammar)
        if form is None:
            form = self._compiled(grammar)
        with self.lock:
            self.cache[grammar] = form
            self.cache.move_to_end(grammar)
            if len(self.cache) > CACHED:
                self.cache.popitem(last=False)
        if isinstance(form, str):
            raise OptionError(f"the answer's form cannot be used: {one_line(form)[:500]}")
        return form

    def _compiled(self, grammar: str) -> Form | str:
        """A form, or what is wrong with its grammar."""
        if len(grammar) > MOST_CHARACTERS:
            return f"it has more than {MOST_CHARACTERS:,} characters"
        matcher, tokenizer = _matcher(), self._known()
        if self.trial is None:
            self.trial = Trial(self.llm, matcher)
        verdict = self.trial.of(grammar)
        if verdict["error"]:
            return str(verdict["error"])

        def compiled() -> Any:
            from llguidance import LLParserLimits

            limits = LLParserLimits(**LIMITS)
            return matcher(tokenizer, grammar, limits=limits, log_level=0)

        start = compiled()
        if start.is_error():
            return str(start.get_error())
        return Form(start, float(verdict["seconds"]), compiled)

    def close(self) -> None:
        """End the process of trials."""
        if self.trial is not None:
            self.trial.close()

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
        except Exception as error:  # the package raises anything for a tokenizer it does not know
            LOGGER.debug("llguidance cannot read the tokenizer", exc_info=True)
            raise OptionError(
                f"answers of a given form do not work with this model's tokenizer: {error}"
            ) from error


class Trial:
    """Grammars on trial in a process of their own (`grammar_child.py`), one after the other."""

    def __init__(self, llm: LLM, matcher: Any) -> None:
        backend = copy(llm.tokenizer.backend_tokenizer)
        backend.no_padding()
        backend.no_truncation()
        self.orders = {
            "tokenizer": backend.to_str(), "vocabulary": llm.runner.vocabulary,
            "ends": sorted(llm.end_tokens), "limits": LIMITS, "seconds": TRIAL_SECONDS,
            "memory": TRIAL_MEMORY,
        }  # fmt: skip
        self.process: subprocess.Popen[str] | None = None
        self.closed = False

    def of(self, grammar: str) -> dict[str, Any]:
        """`{"error", "seconds"}` of a grammar; `error` is empty for one that can be used."""
        process = self._running()
        assert process.stdin is not None, "it is a pipe"
        assert process.stdout is not None, "it is a pipe"
        timer = threading.Timer(TRIAL_WAIT, self._end)
        timer.start()
        try:
            process.stdin.write(json.dumps(grammar) + "\n")
            process.stdin.flush()
            answer: dict[str, Any] = json.loads(process.stdout.readline())
            return answer
        except (OSError, ValueError):
            self._end()
            self._forget()
            return {"error": "the process that tries it has ended", "seconds": 0.0}
        finally:
            timer.cancel()

    def close(self) -> None:
        """End the process; none is started any more."""
        self.closed = True
        self._end()
        self._forget()

    def _running(self) -> subprocess.Popen[str]:
        """The process, started where there is none."""
        if self.closed:
            raise OptionError("the server is stopping")
        if self.process is None or self.process.poll() is not None:
            self._forget()
            self.process = subprocess.Popen(
                [sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, start_new_session=True,
            )  # fmt: skip
            assert self.process.stdin is not None, "it is a pipe"
            with suppress(OSError):  # it has ended: its answer says so
                self.process.stdin.write(json.dumps(self.orders) + "\n")
        return self.process

    def _forget(self) -> None:
        """Close the pipes of a process that has ended."""
        process, self.process = self.process, None
        for pipe in (process.stdin, process.stdout) if process is not None else ():
            if pipe is not None:
                with suppress(OSError):  # what was not written yet cannot be
                    pipe.close()

    def _end(self) -> None:
        process = self.process
        if process is None:
            return
        if process.poll() is None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Grammar:
    """A logits processor: tokens that the grammar forbids after a path get the logit -inf.

    Raises `OptionError` where llguidance can say no more what is allowed: no text goes on without
    its mask.

    Shapes: ids [N, length], logits [N, V].

    Args:
        form: that the answer follows.
        prompt_length: tokens of the prompt, which the grammar does not see.
    """

    stateful = False  # the matcher goes to whatever text it is asked about

    def __init__(self, form: Form, prompt_length: int) -> None:
        self.form, self.prompt_length = form, prompt_length
        self.start: Any = None
        self.matcher: Any = None
        self.text: list[int] = []  # what the matcher has read
        self.beyond = 0.0  # seconds
        self.renewed = False

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        masked = logits.clone()
        for row, answer in enumerate(ids[:, self.prompt_length :].tolist()):
            began = time.thread_time()
            bits = self._bits(answer)
            self._spend(time.thread_time() - began)
            if bits is not None:
                allowed = unpacked(bits, logits.shape[-1]).to(logits.device)
                masked[row].masked_fill_(~allowed, NEVER)
        return masked

    def _bits(self, answer: list[int]) -> bytes | None:
        """A bit for every token that may follow; None where no answer begins like that."""
        if self.start is None:
            self._begin(self.form.start)
        bits = self._mask(answer)
        if self.matcher.is_error() and not self.renewed:
            self.renewed = True
            renewed = self.form.renew(self.start)
            if renewed is not None:
                self._begin(renewed)
                bits = self._mask(answer)
        if self.matcher.is_error():
            reason = one_line(self.matcher.get_error())[:300]
            raise OptionError(f"the answer's form is too much for llguidance: {reason}")
        return bits

    def _begin(self, start: Any) -> None:
        self.start, self.matcher, self.text = start, start.deep_copy(), []

    def _mask(self, answer: list[int]) -> bytes | None:
        """As `_bits`; wrong where the matcher is in error afterwards."""
        arrived = self._go_to(answer)
        if self.matcher.is_error() or (not arrived and self.matcher.is_stopped()):
            return None
        # a matcher whose automaton has failed in another text reads nothing and tells of no error:
        # only a mask does. Thus one is computed even where the path breaks the form
        bits = bytes(self.matcher.compute_bitmask())
        if arrived:
            return bits
        refused = answer[len(self.text)]
        if not self.matcher.is_error() and bits[refused // 8] >> refused % 8 & 1:
            raise OptionError("the answer's form is too much for llguidance: its mask is wrong")
        return None

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

    def _spend(self, seconds: float) -> None:
        """Count the time of a mask; raises `OptionError` where it is too much for one text."""
        self.beyond += max(seconds - MASK_SECONDS, 0.0)
        if self.beyond > MASKS_BEYOND:
            raise OptionError(
                f"the answer's form takes too long: {self.beyond:.1f} s beyond "
                f"{1000 * MASK_SECONDS:.0f} ms a mask; ask for a simpler one"
            )


def unpacked(bits: bytes, vocabulary: int) -> Tensor:
    """[V] whether a token may follow."""
    packed = torch.frombuffer(bytearray(bits), dtype=torch.uint8)
    shifts = torch.arange(8, dtype=torch.uint8)
    return (packed[:, None] >> shifts & 1).bool().reshape(-1)[:vocabulary]

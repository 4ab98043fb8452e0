"""llama.cpp on a GGUF file, through the package `xllamacpp`: the same prompts as ids, other
weights (a quantized model), so its texts are its own.
"""

import importlib
import re
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch

from leapdecode.core import SamplingParams
from leapdecode.errors import OptionError
from leapdecode.llm import LLM
from leapdecode_bench.measure.contenders import Contender, Outcome
from leapdecode_bench.measure.peers.base import LEFT_OUT, Peer, PeerContender, counts_of

CONTEXT = 4096  # tokens that its cache holds, where the model takes as many
KEY, COPIED = 3, 8  # n-gram that is looked up, tokens copied behind it; its defaults are 12 and 48
FORMAT = re.compile(r"(?:^|[-._])(I?Q\d\w*|BF16|F16|F32)$", re.IGNORECASE)


class LlamaCppPeer(Peer):
    """`--peers llama_cpp=FILE`, or `llama_cpp=FILE+DRAFT`, on as many threads as torch has."""

    name = "llama_cpp"
    package = module = "xllamacpp"
    takes = (
        "the path of a GGUF file, as llama_cpp=model.Q4_1.gguf, or two, as target.gguf+draft.gguf"
    )

    def check(self, argument: str) -> None:
        super().check(argument)
        for file in argument.split("+", 1):
            if not Path(file).is_file():
                raise OptionError(f"--peers llama_cpp: there is no file {file}")

    def contenders(self, llm: LLM, argument: str) -> list[Contender]:
        target, _, draft = argument.partition("+")
        modes = ["plain", "ngram", *(["draft"] if draft else [])]
        return [LlamaCpp(llm, mode, file=Path(target), draft_file=Path(draft)) for mode in modes]


@dataclass
class LlamaCpp(PeerContender):
    """Greedy completions of an in-process llama.cpp server with one slot and no prompt cache.

    Modes: "plain"; "ngram": guesses from the text so far (llama.cpp's `ngram-map-k4v`, of its
    kinds the fastest one here at these lengths); "draft": a draft model's, as `--model-draft` with
    its own defaults. The draft's forwards are not reported by the server, so they count as none.
    """

    file: Path = Path()
    draft_file: Path = Path()
    same_weights: ClassVar[bool] = False
    left_out: ClassVar[tuple[str, ...]] = (*LEFT_OUT, "repetition_penalty", "stop_token_ids")

    @property
    def label(self) -> str:
        format_match = FORMAT.search(self.file.stem)
        kind = format_match[1].lower() if format_match else self.file.stem
        return f"llama.cpp-{kind}" + ("" if self.mode == "plain" else f"-{self.mode}")

    @cached_property
    def server(self) -> Any:
        """The loaded model; it stays, as ours does."""
        package = importlib.import_module("xllamacpp")
        params = package.CommonParams()
        params.model.path = str(self.file)
        params.n_ctx = min(CONTEXT, self.llm.runner.max_length)
        params.n_parallel, params.cache_prompt, params.verbosity = 1, False, -1
        for pool in (params.cpuparams, params.cpuparams_batch):
            pool.n_threads = torch.get_num_threads()
        if self.mode == "ngram":
            guessing = params.speculative
            guessing.types = [package.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_MAP_K4V]
            guessing.ngram_map_k4v.size_n, guessing.ngram_map_k4v.size_m = KEY, COPIED
        if self.mode == "draft":
            guessing = params.speculative
            guessing.types = [package.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
            guessing.draft.mparams.path = str(self.draft_file)
        return package.Server(params)

    def _one(self, prompt: list[int], sampling: SamplingParams) -> Outcome:
        request = {
            "prompt": prompt,
            "max_tokens": sampling.max_tokens,
            "temperature": 0.0,
            "ignore_eos": sampling.ignore_eos,
            "cache_prompt": False,
            "verbose": True,  # with it the answer has the tokens
            "return_tokens": True,
        }
        server = self.server
        began = time.perf_counter()
        answer = server.handle_completions(request)
        seconds = time.perf_counter() - began
        if "error" in answer:
            raise OptionError(f"{self.label}: {answer['error']['message']}")
        whole, times = answer["__verbose"], answer["timings"]
        token_ids = list(whole["tokens"])
        # each forward gives a token beside the accepted guesses
        forwards = times["predicted_n"] - times.get("draft_n_accepted", 0)
        rows = len(prompt) + forwards - 1 + times.get("draft_n", 0)
        outcome = self.outcome(prompt, token_ids, counts_of(forwards, rows, seconds))
        outcome.text = whole["content"]
        return outcome

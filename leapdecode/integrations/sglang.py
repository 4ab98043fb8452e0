"""Guesses of leapdecode inside SGLang: `--speculative-algorithm LEAPDECODE`.

SGLang finds `register` through the entry-point group `sglang.srt.plugins`; installing leapdecode
beside it is enough. Its n-gram worker verifies token trees, which it asks of a corpus. Ours is
such a corpus, and a worker that has it in the n-gram corpus's place. Written against SGLang 0.5.23;
not tested on a device.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leapdecode.core import TokenTree
from leapdecode.errors import UnsupportedEngine
from leapdecode.integrations.texts import Shared, Text
from leapdecode.methods.hybrid import Hybrid

ALGORITHM = "LEAPDECODE"
WHOLE = 1 << 30  # tokens of a text that the worker hands over
ASKED = ("is_", "supports_", "has_", "handle_server_args")  # beginnings of methods' names
PADDING = 0  # SGLang's own: a token id below the root


class TreeCorpus:
    """Token trees for SGLang's n-gram worker, in the form of its `NgramCorpus`.

    Args:
        draft_token_num: nodes of every tree, the root included.
    """

    def __init__(self, draft_token_num: int) -> None:
        self.draft_token_num = draft_token_num
        # all nodes are verified in any case, so none is left out as unlikely
        self.shared = Shared(Hybrid(nodes=draft_token_num), least=0.0)
        self.texts: dict[str, Text] = {}

    def batch_get(
        self, req_ids: list[str], batch_tokens: list[list[int]], total_lens: list[int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The trees behind every text of a batch.

        Args:
            req_ids: SGLang's ids of the requests.
            batch_tokens: the whole texts, as token ids; the last token is the tree's root.
            total_lens: their lengths.

        Returns:
            Tokens [batch * nodes], and ancestors [batch * nodes * nodes]: 1 where the second node
            is the first one or above it. A tree with fewer nodes is padded with children of the
            root.

        Raises `UnsupportedEngine` where a text is not whole.
        """
        trees = []
        for request, tokens, length in zip(req_ids, batch_tokens, total_lens, strict=True):
            if len(tokens) != length:
                raise UnsupportedEngine(
                    f"SGLang hands over {len(tokens)} of {length} tokens of a text; this plug-in "
                    "is written for version 0.5.23"
                )
            trees.append(self._tree(request, tokens))
        laid = [laid_out(tree, self.draft_token_num) for tree in trees]
        tokens_BN, ancestors_BNN = (np.stack(part) for part in zip(*laid, strict=True))
        return tokens_BN.reshape(-1), ancestors_BNN.reshape(-1)

    def _tree(self, request: str, tokens: list[int]) -> TokenTree:
        text = self.texts.get(request)
        known = text.sequence.tokens if text is not None else []
        if text is None or len(tokens) == len(known) or tokens[: len(known)] != known:
            text = self.texts[request] = Text(self.shared, tokens[:-1] or tokens)
        return text.tree(tokens[len(text) :])

    def erase_match_state(self, req_ids: list[str]) -> None:
        """Forget the state of requests that have left; their texts are kept to guess from."""
        for request in req_ids:
            text = self.texts.pop(request, None)
            if text is not None:
                self.shared.end(text.sequence)

    def batch_put(self, batch_tokens: list[list[int]]) -> None:
        """Nothing to do: texts are read where trees are asked for."""

    def synchronize(self) -> None:
        """Nothing to do: nothing is inserted in the background."""

    def reset(self) -> None:
        """Forget everything."""
        self.shared = Shared(Hybrid(nodes=self.draft_token_num), least=0.0)
        self.texts = {}

    def list_external_corpora(self) -> dict[str, int]:
        """There are none."""
        return {}

    def load_external_corpus_named(self, corpus_id: str, chunks: Any) -> int:
        """Raises `UnsupportedEngine`."""
        raise UnsupportedEngine(
            f"external corpus {corpus_id!r}: {ALGORITHM} guesses from texts alone; use NGRAM"
        )


def laid_out(tree: TokenTree, nodes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tokens [nodes] and ancestors [nodes, nodes] of the first nodes of a tree."""
    size = min(len(tree), nodes)
    tokens_N = np.full(nodes, PADDING, dtype=np.int64)
    ancestors_NN = np.eye(nodes, dtype=np.int64)
    tokens_N[:size] = tree.tokens[:size]
    ancestors_NN[:, 0] = 1
    for node in range(1, size):
        ancestors_NN[node] |= ancestors_NN[tree.parents[node]]
    return tokens_N, ancestors_NN


def worker_class(server_args: Any) -> type:
    """SGLang's n-gram worker with a `TreeCorpus`."""
    from sglang.srt.speculative.ngram_worker import NGRAMWorker

    class LeapdecodeWorker(NGRAMWorker):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.max_trie_depth = WHOLE  # so that texts are handed over whole
            self.ngram_corpus = TreeCorpus(self.draft_token_num)

    return LeapdecodeWorker


def _as_ngram(algorithm: Any, name: str) -> Callable[..., Any]:
    """A method that answers as NGRAM's own one does."""

    def answer(_: Any, *arguments: Any) -> Any:
        return getattr(algorithm, name)(*arguments)

    return answer


def register() -> None:
    """Called by SGLang in each of its processes: makes the algorithm known.

    Whatever SGLang asks of an algorithm is answered as for its own NGRAM.
    """
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
    from sglang.srt.speculative.spec_registry import CustomSpecAlgo

    asked = [name for name in vars(SpeculativeAlgorithm) if name.startswith(ASKED)]
    answers = {name: _as_ngram(SpeculativeAlgorithm.NGRAM, name) for name in asked}
    kind = type("LeapdecodeAlgorithm", (CustomSpecAlgo,), answers)
    SpeculativeAlgorithm.register(ALGORITHM, supports_overlap=True, spec_class=kind)(worker_class)

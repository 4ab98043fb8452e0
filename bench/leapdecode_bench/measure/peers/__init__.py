"""Other engines in the same run: one file in this folder is one peer of `--peers`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from leapdecode.core import SamplingParams
from leapdecode.errors import OptionError, UnknownName, with_suggestions
from leapdecode.plugins import Registry
from leapdecode_bench.measure.contenders import Contender
from leapdecode_bench.measure.peers.base import Peer, PeerContender

if TYPE_CHECKING:
    from leapdecode.llm import LLM

PEERS = Registry(__name__, Peer, "peer")  # type: ignore[type-abstract]
peer_names = PEERS.names


def parse_peers(listed: str) -> list[tuple[Peer, str]]:
    """(peer, argument) of a list by comma, as "hf,llama_cpp=FILE"; raises `UnknownName` with
    suggestions.
    """
    parsed: dict[str, tuple[Peer, str]] = {}
    for part in filter(None, (part.strip() for part in listed.split(","))):
        name, _, argument = part.partition("=")
        if name not in peer_names():
            raise UnknownName(
                with_suggestions(f"--peers {name!r} is not known", name, peer_names())
            )
        parsed[name] = PEERS.instance(name), argument
    if not parsed:
        raise OptionError(f"--peers is empty; choose from {', '.join(peer_names())}")
    return list(parsed.values())


def check_peers(listed: str, batch_size: int = 1) -> None:
    """Raise what is wrong with `--peers` whatever the model is, and for batches, which peers do
    not decode.
    """
    for peer, argument in parse_peers(listed):
        peer.check(argument)
    if batch_size > 1:
        raise OptionError("--peers decodes one prompt at a time; leave --batch-size out")


def check_sampling(contenders: Iterable[Contender], samplings: Iterable[SamplingParams]) -> None:
    """Raise `OptionError` for sampling that a peer among the contenders does not take, before
    anything is measured.
    """
    samplings = list(samplings)
    for contender in contenders:
        if isinstance(contender, PeerContender):
            for sampling in samplings:
                contender.check(sampling)


def peers(listed: str, llm: LLM) -> list[Contender]:
    """The contenders that `--peers` adds; raises what `check_peers` raises."""
    check_peers(listed)
    return [
        contender
        for peer, argument in parse_peers(listed)
        for contender in peer.contenders(llm, argument)
    ]


__all__ = [
    "Peer",
    "PeerContender",
    "check_peers",
    "check_sampling",
    "parse_peers",
    "peer_names",
    "peers",
]

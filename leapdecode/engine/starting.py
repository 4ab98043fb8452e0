"""From a request to what decodes it: everything that can be wrong with it is found here."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from leapdecode.core import Request, Sequence
from leapdecode.engine.active import ActiveRequest
from leapdecode.engine.checks import (
    check_budget,
    check_length,
    check_salt,
    check_verification,
)
from leapdecode.engine.shared import Shared
from leapdecode.errors import OptionError
from leapdecode.methods.base import Method
from leapdecode.methods.context import MethodContext
from leapdecode.methods.registry import fresh, make
from leapdecode.model.exactness import refusal
from leapdecode.model.names import AUTO
from leapdecode.model.plain import PlainRunner
from leapdecode.model.traits import trained_block
from leapdecode.verify.custom import for_one_text


def budget_of(request: Request, method: Method) -> int | str | None:
    """The token budget of a request; None: there is none."""
    budget = request.budget
    if budget == AUTO:
        # draws for the rejection verifier depend on the guesses, so their number is no machine's
        draws = request.verification == "rejection" and not request.sampling.greedy
        budget = None if draws and method.name != AUTO else method.budget
    return None if budget == "none" else budget


def start(
    request: Request,
    models: Mapping[str, Any],
    shared: Shared,
    batch_size: int,
    others: Iterable[ActiveRequest] = (),
) -> ActiveRequest:
    """A request's text and method, checked; raises the user errors that `Engine.add` names.

    `others` have not ended, and may have the same logits processors, see `for_one_text`.
    """
    target = models["target"]
    check_verification(request.verification)
    check_budget(request.budget)
    check_salt(request.cache_salt)
    check_length(request.prompt_ids, target.max_length)
    check_target(target)
    method = method_of(request, models)
    has_draft = method.asks_draft(models.get("draft") is not None)
    planner = shared.planner(method, has_draft, budget_of(request, method), batch_size)
    ends = request.end_tokens | frozenset(request.sampling.stop_token_ids)
    params = request.sampling
    if params.logits_processors:
        used = [(other.sequence.params.logits_processors, bool(other.samplers)) for other in others]
        processors = for_one_text(params.logits_processors, used)
        params = replace(params, logits_processors=processors)
    sequence = Sequence(
        request.prompt_ids, params, request.stream, ends, target.max_length,
        request.on_token, request.watch,
        verification=request.verification, cache_salt=request.cache_salt, id=request.id,
    )  # fmt: skip
    pool = shared.pool(method, sequence, request.pool)
    store = shared.earlier(method, sequence, request.store)
    block = trained_block(target.model)
    context = MethodContext(planner, pool, store, has_draft, block)
    return ActiveRequest(request, sequence, method, context)


def method_of(request: Request, models: Mapping[str, Any]) -> Method:
    """The method that decodes a request: plain decoding where the model serves nothing else."""
    given, options = request.method, dict(request.options)
    if isinstance(given, Method) and options:
        made = f"{type(given).__name__}({', '.join(options)}=...)"
        raise OptionError(f"options of a method that is an object are its own: method={made}")
    method = fresh(given) if isinstance(given, Method) else make(given, options)
    if method.needs_draft and models.get("draft") is None:
        raise OptionError(
            f"method {method.name!r} needs a draft model; pass draft=... (--draft MODEL)"
        )
    return plain_method() if isinstance(models["target"], PlainRunner) else method


def plain_method() -> Method:
    """Plain decoding."""
    return make("autoregressive", {})


def check_target(target: Any) -> None:
    """Raise `UnsupportedModel` where the model has proved to verify no trees and may not be decoded
    plainly, or where texts must be exact and have proved not to be.
    """
    if target.refusal is not None:
        raise target.refusal
    if target.exact is not None and target.exact.reason and target.exact.required:
        raise refusal(target.model, target.exact)

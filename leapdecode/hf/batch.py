"""Many prompts at a time, as transformers' continuous batching names it."""

import copy
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList
from transformers.generation.continuous_batching.requests import GenerationOutput, RequestStatus

from leapdecode.core import Output, StepEvent
from leapdecode.engine import Engine
from leapdecode.engine.schedulers.batched import Batched
from leapdecode.errors import PromptError
from leapdecode.hf.adapter import Decoding, decoding, generate_of
from leapdecode.hf.checks import check_config
from leapdecode.hf.rows import Row
from leapdecode.llm.checks import check_batch_size
from leapdecode.llm.prompts import encode
from leapdecode.methods import DEFAULT


@dataclass
class Pending:
    """One text under way: its request's name there, its row, and the times of its tokens."""

    name: str
    row: Row
    created: float = field(default_factory=perf_counter)
    times: list[float] = field(default_factory=list)


def generate_batch(
    model: Any,
    inputs: list[list[int]],
    generation_config: GenerationConfig | None = None,
    *,
    method: str = DEFAULT,
    draft: Any = None,
    fallback: str | bool | None = None,
    batch_size: int = 8,
    return_logprobs: bool = False,
    record_timestamps: bool = False,
    progress_bar: bool = False,
    max_new_tokens: int | None = None,
    **options: Any,
) -> dict[str, GenerationOutput]:
    """What `model.generate_batch` does, decoded by `method` and its `options`.

    Args:
        model, inputs, generation_config, record_timestamps, progress_bar, max_new_tokens: as there.
        return_logprobs: give the log-probabilities of the tokens, after processors and temperature,
            as there.
        draft, fallback: as `decoding` takes them.
        batch_size: texts decoded at a time; others join when one ends.

    Returns:
        Per request id (`req_0`, `req_1`, ... in the order of `inputs`, further samples of a prompt
        as `req_0__child#0` before it) a `GenerationOutput` of transformers. A text that fails has
        the status `FAILED` and its `error`; the others are not touched.

    Raises `OptionError` and `PromptError` for what cannot be done at all.
    """
    check_batch_size(batch_size)
    if not isinstance(inputs, list | tuple):
        raise PromptError(f"inputs takes a list of lists of token ids, not {type(inputs).__name__}")
    decoder = decoding(method, draft=draft, fallback=fallback, **options)
    limits = {} if max_new_tokens is None else {"max_new_tokens": max_new_tokens}
    if limits and generation_config is not None:  # transformers deprecates one beside the other
        generation_config, limits = copy.deepcopy(generation_config), {}
        generation_config.update(max_new_tokens=max_new_tokens)
    with decoder.models(model) as models:
        texts = [
            text
            for number, ids in enumerate(inputs)
            for text in _prepared(
                model, f"req_{number}", ids, generation_config, limits, models["target"]
            )
        ]
        outputs = _decode(decoder, models, texts, batch_size, return_logprobs, progress_bar)
    return {
        text.name: _output(text, output, record_timestamps, return_logprobs)
        for text, output in zip(texts, outputs, strict=True)
    }


def _prepared(
    model: Any,
    name: str,
    ids: list[int],
    config: GenerationConfig | None,
    limits: dict[str, Any],
    target: Any,
) -> list[Pending]:
    """A prompt's texts as transformers' own `generate` prepares them: processors, criteria,
    samples.
    """
    if not isinstance(ids, list | tuple):
        raise PromptError(f"{name}: a prompt is a list of token ids, not {type(ids).__name__}")
    try:
        ids = encode(ids, None, target.vocabulary)
    except PromptError as error:
        raise PromptError(f"{name}: {error}") from error
    rows: list[Row] = []

    def capture(
        model: Any, input_ids: Tensor, logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList, generation_config: GenerationConfig, **_: Any,
    ) -> Tensor:  # fmt: skip
        check_config(generation_config, model, None, len(input_ids))
        seed = int(torch.randint(1 << 62, (1,))) if generation_config.do_sample else 0
        for number in range(len(input_ids)):
            row = Row(input_ids, number, 0, logits_processor, stopping_criteria, target.max_length)
            row.begin(generation_config, seed)
            rows.append(row)
        return input_ids

    prompt = torch.tensor([ids], device=model.get_input_embeddings().weight.device)
    mask = torch.ones_like(prompt)
    generate_of(model)(
        prompt, attention_mask=mask, generation_config=config, custom_generate=capture, **limits
    )
    children = [Pending(f"{name}__child#{number}", row) for number, row in enumerate(rows[1:])]
    return [*children, Pending(name, rows[0])]


def _decode(
    decoder: Decoding, models: dict[str, Any], pending: list[Pending],
    batch_size: int, return_logprobs: bool, progress_bar: bool,
) -> list[Output]:  # fmt: skip
    """Decode all texts to their ends, in the order in which they were given."""
    engine = Engine(models, Batched(batch_size))
    by_id: dict[int, Pending] = {}
    try:
        for text in pending:
            if return_logprobs:
                sampling = text.row.wanted["sampling"]
                text.row.wanted["sampling"] = replace(sampling, logprobs=0, processed_logprobs=True)
            request = text.row.request(decoder.method)
            by_id[engine.add(request)] = text
        with tqdm(total=len(pending), disable=not progress_bar, unit="text") as bar:
            while engine.busy:
                for event in engine.step():
                    _note(by_id[event.request_id], event)
                    bar.update(event.finish_reason is not None)
        return [engine.result(text.row.id) for text in pending]
    finally:
        engine.close()


def _note(text: Pending, event: StepEvent) -> None:
    """Keep the times of a step's tokens."""
    now = perf_counter()
    text.times += [now] * len(event.step.tokens if event.step else [])


def _output(
    text: Pending, output: Output, record_timestamps: bool, return_logprobs: bool
) -> GenerationOutput:
    sequence = output.sequence
    failed = sequence.error is not None
    return GenerationOutput(
        request_id=text.name,
        prompt_ids=list(output.request.prompt_ids),
        generated_tokens=sequence.generated,
        logprobs=[entry.logprob for entry in sequence.logprobs] if return_logprobs else [],
        error=str(sequence.error) if failed else None,
        status=RequestStatus.FAILED if failed else RequestStatus.FINISHED,
        created_time=text.created,
        lifespan=(text.created, text.times[-1] if text.times else text.created),
        timestamps=text.times if record_timestamps else None,
    )

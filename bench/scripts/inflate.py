"""Grow a trained Llama to a real model's shape without changing what it computes.

    python bench/scripts/inflate.py 0.5b --out build/inflated/0.5b --check
    python bench/scripts/inflate.py 0.5b --out build/inflated/0.5b-draft --role draft --share 0.1
    python bench/scripts/inflate.py 7b --out build/inflated/7b --device cuda
    python bench/scripts/inflate.py 68m --out build/inflated/68m --role draft
    python bench/scripts/inflate.py 1b --out build/inflated/1b --layers 24 --vocabulary keep

The text, the hits of guesses and so the tokens per forward are those of the small trained model;
the cost of a forward is that of the shape. Such a figure must be quoted with both; `inflated.json`
in the folder says which. `leapdecode` and `LLM(folder)` open the result like any saved model.

How, for a source of width d and head size e in a target of width D and head size r*e:

- a feature of the residual stream becomes c copies. What writes it is multiplied by s = sqrt(D / (d
  c)), which keeps the mean square that RMSNorm divides by; norm weights are divided by s; what
  reads it is split over the copies;
- a rotary pair j becomes pair r*j, which turns at the same speed, and queries are multiplied by
  sqrt(r);
- further heads, neurons and layers are random (normal, 0.02) and write nothing: their output
  weights are zero;
- further vocabulary rows (`vocabulary="grow"`) hold the mean of the real output rows, which never
  exceeds the largest, and take off more by reading a feature that is the same constant in every row
  and that nothing else uses. Its energy is taken from rms_norm_eps. So the argmax is never an added
  id. Under sampling they keep a small probability: all of them together at most 1e-6 a token in the
  tests at temperature 1, mostly far less; it grows with the temperature.

The function is the same, in exact arithmetic. In bfloat16 the grown weights are the converted
source's, exactly, when d divides D (D / d of 4 or more for a grown vocabulary) and r is a power of
four; otherwise those that carry s or sqrt(r) are rounded. Sums are rounded in another order in any
dtype, so near ties may fall differently in bfloat16.
"""

import argparse
import copy
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from leapdecode.errors import LeapdecodeError
from leapdecode.model.load import DTYPES, load_model, load_tokenizer, pick_device, resolve
from leapdecode_bench.tasks.registry import find

sys.path.insert(0, str(Path(__file__).resolve().parent))
from shapes import SHAPES, Shape, draft_shape, plan
from widths import Places, Width, query_gain

STD = 0.02  # of random weights, as transformers initialises a Llama
# logits that an added id lies below the mean, where the last residual is as large as ever seen
MARGIN = 20.0


@torch.no_grad()
def inflate(
    model: Any,
    shape: Shape | str,
    *,
    layers: int | None = None,
    vocabulary: str = "grow",
    dtype: torch.dtype = torch.bfloat16,
    device: str | torch.device = "cpu",
    seed: int = 0,
    progress: bool = False,
) -> LlamaForCausalLM:
    """A Llama of the given shape with the logits of `model`, which is left as it is.

    Args:
        model: a `LlamaForCausalLM`, no larger than the shape in any dimension.
        shape: a `Shape` or a name in `SHAPES`; `layers` replaces its number of layers.
        vocabulary: "grow" adds ids that can never win, "keep" keeps the source's vocabulary.
        dtype, device: of the result, which is built there layer by layer and needs hardly more than
            its own size.
        seed: of the random weights.

    Raises:
        ValueError: the model does not fit into the shape.
    """
    new = plan(model, shape, layers=layers, vocabulary=vocabulary)
    old = Shape.of(model)
    like = torch.empty(0, dtype=torch.promote_types(dtype, torch.float32), device=device)
    width = Width.grown(old.hidden, new.hidden, new.vocabulary > old.vocabulary, like)
    inflated = _unfilled(model, new, width, dtype, device)
    random = torch.Generator(like.device).manual_seed(seed)
    places = Places.between(old, new)
    counted = track(
        inflated.model.layers, "layers", console=Console(stderr=True), disable=not progress
    )
    for number, layer in enumerate(counted):
        _fill_random(layer, random)
        if number < old.layers:
            _fill_layer(layer, model.model.layers[number], width, places, like)
    _fill_ends(inflated, model, width, like, random)
    inflated.generation_config = copy.deepcopy(model.generation_config)
    return inflated.eval()


def _unfilled(
    model: Any, new: Shape, width: Width, dtype: torch.dtype, device: str | torch.device
) -> Any:
    """The model of shape `new` in memory that nothing has written to yet."""
    config = copy.deepcopy(model.config)
    if width.spare:
        config.rms_norm_eps -= width.spare * width.constant(config.rms_norm_eps) ** 2 / new.hidden
    config.hidden_size, config.intermediate_size, config.num_hidden_layers = (
        new.hidden,
        new.intermediate,
        new.layers,
    )
    config.num_attention_heads, config.num_key_value_heads = new.heads, new.kv_heads
    config.head_dim, config.vocab_size, config.tie_word_embeddings = (
        new.head_dim,
        new.vocabulary,
        False,
    )
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(
            config, dtype=dtype, attn_implementation=model.config._attn_implementation
        )
    empty.to_empty(device=device)
    empty.model.rotary_emb = LlamaRotaryEmbedding(config=config).to(device)
    return empty


def _fill_random(layer: Any, random: torch.Generator) -> None:
    """A layer of random weights that writes nothing."""
    for parameter in layer.parameters():
        parameter.normal_(0, STD, generator=random)
    layer.self_attn.o_proj.weight.zero_()
    layer.mlp.down_proj.weight.zero_()
    layer.input_layernorm.weight.fill_(1)
    layer.post_attention_layernorm.weight.fill_(1)


def _fill_layer(new: Any, old: Any, width: Width, places: Places, like: Tensor) -> None:
    """Write the source's heads and neurons among the random ones."""
    q, k, v, o = (getattr(new.self_attn, f"{name}_proj").weight for name in "qkvo")
    old_q, old_k, old_v, old_o = (
        getattr(old.self_attn, f"{name}_proj").weight.to(like) for name in "qkvo"
    )
    q[places.queries] = width.reading(old_q * query_gain(places.growth)).to(q)
    # the other dimensions of heads that the source's queries look at
    k[: len(places.keys) * places.growth] = 0
    k[places.keys] = width.reading(old_k[places.key_source]).to(k)
    v[places.keys] = width.reading(old_v[places.key_source]).to(v)
    o[:, places.queries] = width.written(old_o).to(o)
    gate, up, down = (
        getattr(old.mlp, f"{name}_proj").weight.to(like) for name in ("gate", "up", "down")
    )
    new.mlp.gate_proj.weight[: len(gate)] = width.reading(gate)
    new.mlp.up_proj.weight[: len(up)] = width.reading(up)
    new.mlp.down_proj.weight[:, : len(gate)] = width.written(down)
    for name in ("input_layernorm", "post_attention_layernorm"):
        getattr(new, name).weight.copy_(width.norm(getattr(old, name).weight.to(like)))


def _fill_ends(
    inflated: Any, model: Any, width: Width, like: Tensor, random: torch.Generator
) -> None:
    """Embedding, last norm and output rows, those of added ids among them."""
    into = inflated.model.embed_tokens.weight
    out = inflated.lm_head.weight
    size = model.config.vocab_size
    into.normal_(0, STD, generator=random)
    into[:size] = width.written(model.model.embed_tokens.weight.to(like).T).T
    head = model.lm_head.weight.to(like)
    out[:size] = width.reading(head)
    spare = 1.0
    if width.spare:
        constant = width.constant(model.config.rms_norm_eps)
        into[:, -width.spare :] = constant
        # the norm then turns the constant into 1 or more
        spare = _largest_residual(model) / constant
        out[size:] = width.reading(head.mean(0, keepdim=True))
        out[size:, -width.spare :] = -MARGIN / width.spare
    inflated.model.norm.weight.copy_(width.norm(model.model.norm.weight.to(like), spare))


def _largest_residual(model: Any) -> float:
    """The largest root mean square that the last norm of `model` meets on random tokens."""
    residuals: list[Tensor] = []
    length = min(256, model.config.max_position_embeddings)
    ids = torch.randint(
        model.config.vocab_size, (1, length), generator=torch.Generator().manual_seed(0)
    )
    hook = model.model.norm.register_forward_pre_hook(
        lambda _, arguments: residuals.append(arguments[0])
    )
    try:
        model(ids.to(model.device), use_cache=False)
    finally:
        hook.remove()
    return float(residuals[0].float().pow(2).mean(-1).sqrt().max())


@torch.no_grad()
def compare(source: Any, other: Any, texts: list[list[int]]) -> dict[str, float]:
    """Largest |logit difference| on the source's ids, the share of equal argmax, and how often an
    added id wins.
    """
    size, largest, same, added, rows = source.config.vocab_size, 0.0, 0, 0, 0
    for ids in texts:
        theirs = other(torch.tensor([ids], device=other.device)).logits[0].to("cpu", torch.float64)
        ours = source(torch.tensor([ids], device=source.device)).logits[0].to("cpu", torch.float64)
        largest = max(largest, float((ours - theirs[:, :size]).abs().max()))
        choice = theirs.argmax(-1)
        same += int((choice == ours.argmax(-1)).sum())
        added += int((choice >= size).sum())
        rows += len(ids)
    return {"largest_difference": largest, "same_argmax": same / rows, "added_ids_won": added}


def check(source: Any, inflated: Any, tokenizer: Any) -> dict[str, Any]:
    """The result against its float32 source on a few prompts, beside the source merely converted to
    its dtype.
    """
    prompts = find("math").prompts(2, seed=1) + find("code").prompts(2, "source", seed=1)
    texts = [tokenizer(text)["input_ids"] for text in prompts]
    converted = copy.deepcopy(source).to(inflated.dtype)
    return {
        "inflated": compare(source, inflated, texts),
        "converted": compare(source, converted, texts),
    }


def note(name: str, shape: Shape, source: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """What `inflated.json` says: whose text, at whose cost."""
    parameters = source.num_parameters()
    cost = f"{shape.parameters / 1e9:.3g}B parameters, {shape.layers} layers"
    return {
        "note": f"text of a {parameters / 1e6:.1f}M-parameter model at the cost of {name} ({cost})",
        "text_of": {"source": arguments.source, "role": arguments.role, "parameters": parameters},
        "cost_of": {
            "shape": name,
            **asdict(shape),
            "parameters": shape.parameters,
            "read_per_forward": shape.read,
        },
        "vocabulary": arguments.vocabulary,
        "dtype": arguments.dtype,
        "seed": arguments.seed,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shape", choices=SHAPES, metavar="SHAPE", help=", ".join(SHAPES))
    parser.add_argument("--out", type=Path, required=True, help="folder to make")
    parser.add_argument(
        "--source", default="demo", help="demo (the embedded pair), a folder or a Hugging Face name"
    )
    parser.add_argument(
        "--role", choices=("target", "draft"), default="target", help="which model of the demo pair"
    )
    parser.add_argument(
        "--share", type=float, help="a shape that reads this share of SHAPE's weights per forward"
    )
    parser.add_argument("--layers", type=int, help="instead of the shape's own number of layers")
    parser.add_argument(
        "--vocabulary", choices=("grow", "keep"), default="grow", help="default: grow"
    )
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16", help="default: bfloat16")
    parser.add_argument("--device", default="cpu", help="where to build it, default: cpu")
    parser.add_argument("--seed", type=int, default=0, help="of the random weights")
    parser.add_argument(
        "--check", action="store_true", help="compare its logits with the source's on a few prompts"
    )
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.out.is_file() or (arguments.out.is_dir() and any(arguments.out.iterdir())):
        parser.error(f"{arguments.out} is there already; choose another folder")
    if arguments.share is not None and not 0 < arguments.share <= 1:
        parser.error(f"--share {arguments.share} must lie in (0, 1]")
    try:
        device = pick_device(arguments.device)
        folder = resolve(arguments.source, arguments.role)
        source, tokenizer = load_model(folder, "cpu", "float32"), load_tokenizer(folder)
        name, shape = arguments.shape, SHAPES[arguments.shape]
        if arguments.share:
            name, shape = (
                f"{arguments.share:g} of {name}",
                draft_shape(source, shape, arguments.share),
            )
        options = {"layers": arguments.layers, "vocabulary": arguments.vocabulary}
        shape = plan(source, shape, **options)
        facts = note(name, shape, source, arguments)
        dtype = DTYPES[arguments.dtype]
        print(f"{facts['note']}; {shape.parameters * dtype.itemsize / 1e9:.1f} GB", file=sys.stderr)
        inflated = inflate(
            source, shape, **options, dtype=dtype, device=device, seed=arguments.seed, progress=True
        )
    except (ValueError, LeapdecodeError) as error:
        parser.error(str(error))
    if arguments.check:
        facts["check"] = check(source, inflated, tokenizer)
    inflated.save_pretrained(arguments.out, max_shard_size="5GB")
    tokenizer.save_pretrained(arguments.out)
    (arguments.out / "inflated.json").write_text(json.dumps(facts, indent=2) + "\n")
    print(json.dumps(facts))


if __name__ == "__main__":
    main()

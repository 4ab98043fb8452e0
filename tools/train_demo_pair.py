"""Train the embedded pair: a deep, narrow target and a two-layer draft that share one byte-level BPE tokenizer.

    python tools/train_demo_pair.py                      # both models, resumes where it stopped
    python tools/train_demo_pair.py --only draft --minutes 5
    python tools/train_demo_pair.py --export leapdecode/data/demo

Text: generated word problems (training skeletons only) and the running Python's standard library (training
files only). Checkpoints are safetensors files under --work; --export writes fp16 weights, the tokenizer and
SHA256SUMS, the form that `leapdecode` loads.
"""

import argparse
import hashlib
import json
import math
import random
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from leapdecode.tasks import code
from leapdecode.tasks import math as word_problems

VOCABULARY, CONTEXT, BLOCK, BATCH = 2048, 2048, 256, 24
SHAPES = {
    "target": {"num_hidden_layers": 16, "hidden_size": 128, "intermediate_size": 320, "num_attention_heads": 4},
    "draft": {"num_hidden_layers": 2, "hidden_size": 96, "intermediate_size": 256, "num_attention_heads": 3},
}
STEPS = {"target": 1700, "draft": 3000}
END = "<|endoftext|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %} {{ message['content'] }}\n"
    "{% else %}Question: {{ message['content'] }}\nAnswer:{% endif %}{% endfor %}"
)


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE of `VOCABULARY` entries in which every digit is a token of its own."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[END], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=END, model_max_length=CONTEXT)
    fast.chat_template = CHAT_TEMPLATE
    return fast


def source_files() -> list[str]:
    return [path.read_text(encoding="utf-8", errors="ignore") for path in code.library_files(held_out=False)]


class Corpus:
    """Blocks of `BLOCK` + 1 tokens, half word problems packed whole, half passages of source."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, device: str) -> None:
        self.tokenizer, self.device = tokenizer, device
        ids: list[int] = []
        for text in source_files():
            ids += [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
        self.source = torch.tensor(ids)
        print(f"source: {len(ids):,} tokens", file=sys.stderr)

    def word_problems(self, seed: int) -> list[int]:
        ids: list[int] = []
        for number in range(10):
            (problem,) = word_problems.problems(word_problems.TRAIN, 1, seed=seed * 10 + number)
            ids += [*self.tokenizer(problem.prompt + problem.completion)["input_ids"], self.tokenizer.eos_token_id]
            if len(ids) > BLOCK:
                break
        return ids[: BLOCK + 1]

    def batch(self, step: int) -> torch.Tensor:
        """[BATCH, BLOCK + 1] token ids; the same for the same step, so a resumed run sees the same text."""
        rng = random.Random(f"batch/{step}")
        rows = [torch.tensor(self.word_problems(step * BATCH + row)) for row in range(BATCH // 2)]
        for _ in range(BATCH - len(rows)):
            start = rng.randrange(len(self.source) - BLOCK - 1)
            rows.append(self.source[start : start + BLOCK + 1])
        return torch.stack(rows).to(self.device)


def learning_rate(step: int, steps: int, peak: float = 3e-3) -> float:
    warm = min(1.0, (step + 1) / 100)
    return peak * warm * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps))))


def save_checkpoint(folder: Path, model: LlamaForCausalLM, optimizer: torch.optim.AdamW, step: int) -> None:
    """Weights and both moments as safetensors, written beside the old file and moved over it."""
    state = {f"model.{name}": value.detach().contiguous() for name, value in model.named_parameters()}
    for name, parameter in model.named_parameters():
        for moment in ("exp_avg", "exp_avg_sq"):
            state[f"{moment}.{name}"] = optimizer.state[parameter][moment].contiguous()
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state, folder / "next.safetensors", metadata={"step": str(step)})
    (folder / "next.safetensors").replace(folder / "checkpoint.safetensors")
    (folder / "step.json").write_text(json.dumps({"step": step}))


def load_checkpoint(folder: Path, model: LlamaForCausalLM, optimizer: torch.optim.AdamW) -> int:
    if not (folder / "checkpoint.safetensors").exists():
        return 0
    state = load_file(folder / "checkpoint.safetensors")
    step = json.loads((folder / "step.json").read_text())["step"]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(state[f"model.{name}"])
            optimizer.state[parameter] = {
                "step": torch.tensor(float(step)),
                "exp_avg": state[f"exp_avg.{name}"].to(parameter.device),
                "exp_avg_sq": state[f"exp_avg_sq.{name}"].to(parameter.device),
            }
    return int(step)


def new_model(role: str, end: int) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=CONTEXT,
        head_dim=32,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=end,
        **SHAPES[role],
    )
    return LlamaForCausalLM(config)


def train(role: str, corpus: Corpus, folder: Path, steps: int, minutes: float) -> LlamaForCausalLM:
    """Train one model for `steps` steps, or until `minutes` have passed; resumes from its checkpoint."""
    model = new_model(role, corpus.tokenizer.eos_token_id).to(corpus.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, betas=(0.9, 0.95), weight_decay=0.1)
    step, began = load_checkpoint(folder, model, optimizer), time.monotonic()
    while step < steps and time.monotonic() - began < minutes * 60:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        ids = corpus.batch(step)
        with torch.autocast(corpus.device, dtype=torch.bfloat16):
            logits = model(input_ids=ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 25 == 0:
            print(
                f"{role} {step}/{steps} loss {loss.item():.3f} {time.monotonic() - began:.0f}s",
                file=sys.stderr,
                flush=True,
            )
        if step % 100 == 0 or step == steps:
            save_checkpoint(folder, model, optimizer, step)
    return model


def export(work: Path, out: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write both models in fp16 with tokenizer and SHA256SUMS (the form `sha256sum -c` reads)."""
    for role in SHAPES:
        model = new_model(role, tokenizer.eos_token_id)
        state = load_file(work / role / "checkpoint.safetensors")
        model.load_state_dict({k[6:]: v for k, v in state.items() if k.startswith("model.")}, strict=False)
        model.half().save_pretrained(out / role)
        tokenizer.save_pretrained(out / role)
    files = sorted(path for path in out.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(out).as_posix()}" for path in files]
    (out / "SHA256SUMS").write_text("\n".join(sums) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("build/demo_pair"), help="checkpoints (default: %(default)s)")
    parser.add_argument("--only", choices=list(SHAPES), help="train this model alone")
    parser.add_argument("--steps", type=int, help=f"default: {STEPS}")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this long; run again to go on")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--export", type=Path, metavar="DIR", help="write the trained pair here and stop")
    arguments = parser.parse_args()
    if (arguments.work / "tokenizer").exists():
        tokenizer = PreTrainedTokenizerFast.from_pretrained(arguments.work / "tokenizer")
    else:
        problems = word_problems.problems(word_problems.TRAIN, 4000)
        tokenizer = train_tokenizer([p.prompt + p.completion for p in problems] + source_files())
        tokenizer.save_pretrained(arguments.work / "tokenizer")
    if arguments.export:
        export(arguments.work, arguments.export, tokenizer)
        return
    corpus = Corpus(tokenizer, arguments.device)
    for role in [arguments.only] if arguments.only else SHAPES:
        train(role, corpus, arguments.work / role, arguments.steps or STEPS[role], arguments.minutes)


if __name__ == "__main__":
    main()

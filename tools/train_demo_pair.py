"""Train the embedded pair: a deep, narrow target and a two-layer draft with the same tokenizer.

    python tools/train_demo_pair.py                      # all; resumes where it stopped
    python tools/train_demo_pair.py --only draft --minutes 5
    python tools/train_demo_pair.py --export pair/leapdecode_demo_pair
    python tools/train_demo_pair.py --start pair/leapdecode_demo_pair --only target  # goes on
    python tools/train_demo_pair.py --start pair/leapdecode_demo_pair --only draft   # a new one

`demo_corpus.py` makes the text. The target's hidden matrices are trained by Muon, all else by
AdamW; the learning rate warms up and then falls linearly to zero, for the target five times, for
the draft twice: from the text, and then from the target's choices. The target begins with half of
its layers, which cost half as much, and gets the others at step `GROWN`. Checkpoints are
safetensors files under --work; --export writes fp16 weights, the tokenizer and SHA256SUMS, the form
that `leapdecode` loads.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeRemainingColumn
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from demo_corpus import Corpus, task_kinds, texts
from demo_losses import TAUGHT, Losses
from demo_models import (
    CONTEXT,
    GROWN,
    SHAPES,
    VOCABULARY,
    Optimizer,
    export,
    load_checkpoint,
    new_model,
    save_checkpoint,
    start_from,
    step_of,
)

RATES = {  # (last step, highest rate): each falls linearly to zero
    "target": ((2900, 2e-3), (4400, 8e-4), (5800, 6e-4), (6500, 3.5e-4), (7600, 6e-4)),
    "draft": ((TAUGHT, 3e-3), (4800, 1.5e-3)),
}
WARM = 100  # steps of warm-up
STEPS = {role: rates[-1][0] for role, rates in RATES.items()}
END = "<|endoftext|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %} "
    "{{ message['content'] }}\n\n"
    "{% else %}Question: {{ message['content'] }}\nAnswer:{% endif %}{% endfor %}"
)


def train_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE of `VOCABULARY` entries in which every digit is a token of its own."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    found = [text for group in texts().values() for text in group]
    for task, kind in task_kinds():
        examples = task.examples("train", 1500, kind)
        found += [task.header(kind), *(example.body + example.completion for example in examples)]
    tokenizer.train_from_iterator(found, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=END, model_max_length=CONTEXT
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def rate_at(role: str, step: int, steps: int) -> float:
    """The learning rate of a step, where the last fall ends at `steps`."""
    first = 0
    for last, rate in (*RATES[role][:-1], (steps, RATES[role][-1][1])):
        if step < last:
            return rate * min((step - first + 1) / WARM, (last - step) / (last - first - WARM))
        first = last
    return 0.0


def layers_at(role: str, step: int) -> int:
    return SHAPES[role]["num_hidden_layers"] // (2 if step < GROWN[role] else 1)


def train(
    role: str, corpus: Corpus, losses: Losses, folder: Path, steps: int, minutes: float
) -> None:
    """Train one model for `steps` steps, or until `minutes` have passed; resumes from its
    checkpoint.
    """
    path, began = folder / "checkpoint.safetensors", time.monotonic()
    columns = (
        *Progress.get_default_columns()[:3],
        TimeRemainingColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
    )
    with Progress(
        *columns, console=Console(stderr=True), disable=not sys.stderr.isatty()
    ) as progress:
        bar = progress.add_task(role, total=steps, loss=0.0)
        for end in sorted({min(GROWN[role], steps), steps}):
            step = step_of(path) if path.exists() else 0
            if step >= end or time.monotonic() - began > minutes * 60:
                continue
            model = new_model(role, corpus.end, layers_at(role, step)).to(corpus.device)
            optimizer, recent = Optimizer(model, role), 0.0
            load_checkpoint(folder, model, optimizer)
            while step < end and time.monotonic() - began < minutes * 60:
                loss = losses.of(role, model, step)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step(rate_at(role, step, steps))
                recent = 0.95 * (recent or loss.item()) + 0.05 * loss.item()
                step += 1
                progress.update(bar, completed=step, loss=recent)
                if step % 50 == 0:
                    note = {"role": role, "step": step, "loss": round(recent, 4)}
                    with (folder.parent / "log.jsonl").open("a") as log:
                        log.write(
                            json.dumps(note | {"seconds": round(time.monotonic() - began)}) + "\n"
                        )
                if step % 200 == 0:
                    save_checkpoint(folder, model, optimizer, step)
            save_checkpoint(folder, model, optimizer, step)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--work",
        type=Path,
        default=Path("build/demo_pair"),
        help="checkpoints (default: %(default)s)",
    )
    parser.add_argument("--only", choices=list(SHAPES), help="train this model alone")
    parser.add_argument("--steps", type=int, help=f"default: {STEPS}")
    parser.add_argument(
        "--minutes", type=float, default=1e9, help="stop after this long; run again to go on"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--float32",
        action="store_true",
        help="faster where bfloat16 has no instructions of its own",
    )
    parser.add_argument(
        "--export", type=Path, metavar="DIR", help="write the trained pair here and stop"
    )
    parser.add_argument(
        "--start", type=Path, metavar="DIR", help="begin with the pair exported here"
    )
    arguments = parser.parse_args()
    if arguments.start and (arguments.work / "tokenizer").exists():
        parser.error(
            f"--start would replace what {arguments.work} holds; leave it out to go on, or choose "
            "another --work"
        )
    if arguments.start:
        start_from(
            arguments.start,
            arguments.work,
            ["target"] if arguments.only == "draft" else list(SHAPES),
        )
    if (arguments.work / "tokenizer").exists():
        tokenizer = PreTrainedTokenizerFast.from_pretrained(arguments.work / "tokenizer")
    else:
        tokenizer = train_tokenizer()
        tokenizer.save_pretrained(arguments.work / "tokenizer")
    if arguments.export:
        export(arguments.work, arguments.export, tokenizer)
        return
    corpus = Corpus(tokenizer, arguments.device)
    losses = Losses(corpus, arguments.work, half=not arguments.float32)
    for role in [arguments.only] if arguments.only else SHAPES:
        train(
            role,
            corpus,
            losses,
            arguments.work / role,
            arguments.steps or STEPS[role],
            arguments.minutes,
        )


if __name__ == "__main__":
    main()

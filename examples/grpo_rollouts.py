"""Reinforcement learning: TRL's GRPOTrainer, with rollouts that start from the last epoch's texts.

python examples/grpo_rollouts.py              # needs pip install "leapdecode[rl]"
python examples/grpo_rollouts.py --no-store   # the same texts, without earlier ones to guess from

The model is a random one, made here. Texts are those that plain decoding draws; one of each step's
is compared with it. A step changes the weights a little, so where a stream draws with the same
noise, most of a text is what it was an epoch ago.
"""

import argparse
import tempfile
from collections import Counter, defaultdict
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase
from trl import GRPOConfig, GRPOTrainer

from leapdecode import LLM, SamplingParams, Store
from leapdecode.model import embedded
from leapdecode_bench.tasks.registry import find

EPOCHS, PROMPTS, SAMPLES = 3, 8, 4
TOKENIZER = embedded.folder() / "target"


class Rollouts:
    """TRL's `rollout_func`: decodes a step's prompts, and counts tokens and forwards by epoch."""

    def __init__(self, store: Store | None, max_tokens: int) -> None:
        self.store, self.max_tokens = store, max_tokens
        self.llm: LLM | None = None
        self.tokens: dict[int, int] = defaultdict(int)
        self.forwards: dict[int, int] = defaultdict(int)

    def __call__(self, prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
        model = trainer.accelerator.unwrap_model(trainer.model)
        training = model.training
        model.eval()
        try:
            with torch.no_grad():
                results = self.decode(model, prompts, trainer)
        finally:
            model.train(training)
        epoch = int(trainer.state.epoch or 0)
        for result in results:
            self.tokens[epoch] += result.stats.tokens
            self.forwards[epoch] += result.stats.target_forwards - result.stats.prefill_forwards
        return {
            "prompt_ids": [result.prompt_token_ids for result in results],
            "completion_ids": [result.token_ids for result in results],
            "logprobs": None,  # TRL computes them itself, as for its own generation
        }

    def decode(self, model: Any, prompts: list[str], trainer: GRPOTrainer) -> list[Any]:
        if self.llm is None:
            self.llm = LLM(model, trainer.processing_class, exact=False)
        self.llm.reset_prefix_cache()  # it holds keys and values of the weights before the step
        sampling = SamplingParams(max_tokens=self.max_tokens, temperature=trainer.temperature)
        streams = occurrences(prompts)  # a prompt's samples draw with the same noise every epoch
        results = self.llm.generate(
            prompts, method="hybrid", budget=32, sampling=sampling, store=self.store, stream=streams
        )
        plain = self.llm.generate(
            prompts[0], method="autoregressive", sampling=sampling, stream=streams[0]
        )
        assert results[0].token_ids == plain.token_ids, "the text is plain decoding's"
        return results


def occurrences(prompts: list[str]) -> list[int]:
    """Per prompt how often it came before in the list: TRL repeats a prompt for every sample."""
    seen: Counter[str] = Counter()
    found = []
    for prompt in prompts:
        found.append(seen[prompt])
        seen[prompt] += 1
    return found


def short_words(completions: list[str], **_: Any) -> list[float]:
    """The reward: how much of a text is spaces."""
    return [text.count(" ") / max(len(text), 1) for text in completions]


def random_model(tokenizer: PreTrainedTokenizerBase) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.15,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def train(rollouts: Rollouts, learning_rate: float, folder: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER, padding_side="left")
    options = GRPOConfig(
        output_dir=folder, num_train_epochs=EPOCHS, per_device_train_batch_size=2 * SAMPLES,
        num_generations=SAMPLES, max_completion_length=rollouts.max_tokens,
        learning_rate=learning_rate, lr_scheduler_type="constant", bf16=False, use_cpu=True,
        use_vllm=False, report_to="none", logging_strategy="no", save_strategy="no",
        disable_tqdm=True,
    )  # fmt: skip
    trainer = GRPOTrainer(
        random_model(tokenizer),
        reward_funcs=short_words,
        args=options,
        train_dataset=Dataset.from_dict({"prompt": find("math").prompts(PROMPTS)}),
        processing_class=tokenizer,
        rollout_func=rollouts,
    )
    trainer.train()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-store", action="store_true", help="guess without earlier texts")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--max-tokens", type=int, default=48)
    given = parser.parse_args()
    rollouts = Rollouts(None if given.no_store else Store(), given.max_tokens)
    with tempfile.TemporaryDirectory() as folder:
        train(rollouts, given.learning_rate, folder)
    for epoch, tokens in rollouts.tokens.items():
        forwards = rollouts.forwards[epoch]
        print(
            f"epoch {epoch + 1}: {tokens} tokens in {forwards} forwards, "
            f"{tokens / forwards:.2f} tokens per forward"
        )


if __name__ == "__main__":
    main()

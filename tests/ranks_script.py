"""Run by torchrun: decodes with every method named, and writes what this rank got as JSON.

Arguments: the folder for the results, the most tokens of a text, methods by comma.
"""

import json
import os
import sys
from pathlib import Path

from leapdecode import LLM, SamplingParams
from leapdecode_bench.tasks.registry import find


def texts(llm, tokens, methods):
    """Token ids by method and temperature: a batch of three, then one text alone."""
    prompts = [find(task).prompts(1)[0] for task in ("math", "code", "passage")]
    found = {}
    for method in methods:
        for temperature in (0.0, 1.0):
            wanted = {
                "method": method,
                "sampling": SamplingParams(max_tokens=tokens, temperature=temperature, seed=3),
                "budget": "auto",
            }
            results = [*llm.generate(prompts, **wanted), llm.generate(prompts[0], **wanted)]
            found[f"{method} {temperature}"] = [one.token_ids for one in results]
    return found


if __name__ == "__main__":
    folder, tokens, methods = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(",")
    split = LLM("demo", dtype="float64", tensor_parallel=True)
    heads = split.runner.layout.keys[0][0]
    document = {"heads": heads, "texts": texts(split, tokens, methods)}
    (folder / f"{os.environ['RANK']}.json").write_text(json.dumps(document))

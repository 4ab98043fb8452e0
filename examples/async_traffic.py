"""Live traffic: 20 requests arrive at random, share one engine, and some are left half-way.

python examples/async_traffic.py            # the demo pair; or give a model's name or folder
"""

import asyncio
import random
import sys

from leapdecode import AsyncLLM, SamplingParams

METHODS = ["autoregressive", "prompt_lookup", "lookahead"]


async def client(llm: AsyncLLM, number: int) -> str:
    """One user: asks after a while, reads piece by piece, and perhaps loses patience."""
    source = random.Random(number)
    await asyncio.sleep(source.random())
    method, patience = source.choice(METHODS), source.choice([8, 1000])
    text, pieces = "", 0
    prompt, sampling = f"def add_{number}(values):", SamplingParams(max_tokens=40)
    async for piece in llm.stream(prompt, method=method, sampling=sampling):
        text += piece.text
        pieces += 1
        if pieces == patience:
            break  # leaving the loop aborts the request; the others do not notice
    return f"{number:2} {method:14} {pieces:3} tokens  {text!r}"


async def main(model: str) -> None:
    async with AsyncLLM(model, batch_size=8) as llm:
        for done in asyncio.as_completed([client(llm, number) for number in range(20)]):
            print((await done)[:100])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "demo"))

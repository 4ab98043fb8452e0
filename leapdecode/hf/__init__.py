"""Inside an existing transformers program: `model.generate(**inputs, custom_generate=decoding())`.

`generate` hands a callable neither its `streamer` nor its `tokenizer`. So both are bound here, by
`decoding("lookahead", streamer=streamer)` or by `decoding("lookahead").generate(model, **inputs,
streamer=streamer, tokenizer=tokenizer, stop_strings=[...])`. A streamer that is given to
`model.generate` itself gets the prompt and then nothing, not even its end: whoever reads it waits
for ever. An `assistant_model` that is given to `model.generate` itself is dropped unseen.
`Decoding.generate` refuses it by name.
"""

from leapdecode.hf.adapter import Decoding, decoding
from leapdecode.hf.batch import generate_batch

__all__ = ["Decoding", "decoding", "generate_batch"]

"""ShareGPT: conversations that people shared; what they asked first is the prompt."""

from leapdecode_bench.tasks.public.base import Hub, Item, PublicSet
from leapdecode_bench.tasks.public.reading import Row

HUMAN = ("human", "user")


class ShareGpt(PublicSet):
    """`id`, and `conversations` of `from` and `value`; some are empty or begin with the model."""

    name = "sharegpt"
    summary = "first messages of shared conversations; nothing to score"
    hub = Hub("anon8231489123/ShareGPT_Vicuna_unfiltered", None, "train")
    files = ("sharegpt.json", "sharegpt/ShareGPT_V3_unfiltered_cleaned_split.json")
    origin = "ShareGPT_V3_unfiltered_cleaned_split.json"

    def item(self, row: Row) -> Item:
        """The first message of a person that is not empty."""
        messages = row.value("conversations")
        if not isinstance(messages, list):
            row.refuse("conversations", "must be a list of messages")
        for number in range(len(messages)):
            if row.text(f"conversations.{number}.from") in HUMAN:
                break
        else:
            row.refuse("conversations", "holds no message of a person")
        return Item(row.optional("id"), turns=(row.text(f"conversations.{number}.value"),))

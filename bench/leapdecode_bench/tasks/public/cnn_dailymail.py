"""CNN/DailyMail (Hermann et al., 2015; See et al., 2017): summaries of news."""

from leapdecode_bench.tasks.public.base import Hub, Item, PublicSet
from leapdecode_bench.tasks.public.reading import Row
from leapdecode_bench.tasks.public.scorers import rouge


class CnnDailyMail(PublicSet):
    """`article` and `highlights`, which are sentences on lines of their own."""

    name = "cnn_dailymail"
    summary = "summaries of news: ROUGE-1"
    hub = Hub("abisee/cnn_dailymail", "3.0.0")
    files = ("cnn_dailymail.jsonl", "cnn_dailymail.csv", "cnn_dailymail/test.csv")
    origin = "test.csv (or JSON lines, Parquet) of CNN/DailyMail 3.0.0"
    stop = ("\nArticle:", "\n\n")
    packages = ("rouge_score",)

    def item(self, row: Row) -> Item:
        """The article; its highlights as one text."""
        article = " ".join(row.text("article").split())
        highlights = " ".join(row.text("highlights").split())
        return Item("", f"Article: {article}\nSummary:", facts={"reference": highlights})

    def score(self, item: Item, text: str) -> float:
        """ROUGE-1's F-measure against the highlights."""
        return rouge(text, item.facts["reference"])

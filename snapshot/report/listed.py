"""Which partitions a page holds itself, and which are in files of their own that load as they are opened.

The page has the topics that are worst, and of these the partitions that deserve most to be seen. All others lie in
pieces of PIECE partitions a topic, and further topics in pieces of `max_topics`:

    details/<number of the topic>-<piece>.js     partitions, in the order of Listed.rest
    details/topics-<piece>.js                    rows of further topics
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tiersnap.snapshot.report.model import PagePartition, PageTopic, Report
from tiersnap.snapshot.report.summary import most_worth

PIECE = 50
INLINE = 200


@dataclass(frozen=True, slots=True)
class Listed:
    """A topic as the page shows it.

    Attributes:
        number: of the topic, worst first.
        inline: partitions that the page holds.
        rest: partitions that are loaded.
        page: how many of the rest lie in one piece.
    """

    number: int
    topic: PageTopic
    inline: tuple[PagePartition, ...]
    rest: tuple[PagePartition, ...]
    page: int = PIECE

    def pieces(self) -> Iterator[Sequence[PagePartition]]:
        """The rest, piece by piece."""
        for start in range(0, len(self.rest), self.page):
            yield self.rest[start : start + self.page]


def listed_topics(report: Report, *, inline: int = INLINE, max_topics: int) -> list[Listed]:
    """All topics, worst first; only the first `max_topics` hold partitions themselves."""
    on_page = [
        [(number, place) for place in range(len(topic.partitions))]
        for number, topic in enumerate(report.topics[:max_topics])
    ]
    chosen = set(most_worth(on_page, lambda at: bool(report.topics[at[0]].partitions[at[1]].blocking))[:inline])
    return [
        Listed(
            number,
            topic,
            tuple(each for place, each in enumerate(topic.partitions) if (number, place) in chosen),
            tuple(each for place, each in enumerate(topic.partitions) if (number, place) not in chosen),
        )
        for number, topic in enumerate(report.topics)
    ]

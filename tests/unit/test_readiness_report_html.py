"""The page: well formed, escaped, self-contained, bounded in size, and its links lead somewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from urllib.parse import unquote

import pyarrow as pa
import pytest

from tests.reference.readiness_tables import RUN, fleet_table, sample_table, segments_of, table
from tiersnap.snapshot.gate.verdict import LEVEL, MEANING, RANK, Level
from tiersnap.snapshot.report.html_page import PAGES, detail_files, to_html
from tiersnap.snapshot.report.html_parts import listed_topics, share
from tiersnap.snapshot.report.model import Report
from tiersnap.snapshot.report.run_history import Beside
from tiersnap.snapshot.report.summary import summarise
from tiersnap.snapshot.units import human_bytes

pytestmark = pytest.mark.unit

GREYS = ("UNVERIFIED_SNAPSHOT", "UNKNOWN_LOG_START", "UNKNOWN_TRANSACTIONS", "UNREADABLE_SEGMENT", "TOPIC_ID_UNKNOWN")
VOID = {"meta", "input", "link", "br", "hr", "img"}
HOSTILE = [
    "<script>alert(1)</script>",
    "</style></script><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "' autofocus onfocus='alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "a b#c?d&amp;%41",
    "-.-",
    "x" * 249,
    "\u202egnp.exe",
]


@dataclass
class Element:
    name: str
    attributes: dict[str, str | None]
    text: list[str] = field(default_factory=list)


class Page(HTMLParser):
    """Every element of a page; complains about tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.open: list[Element] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open, f"never closed: {[element.name for element in self.open]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> says {names}"
        self.elements.append(Element(tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(self.elements[-1])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if self.open:
            self.open[-1].text.append(data)

    def named(self, name: str, **attributes: str) -> list[Element]:
        """Elements of a name whose attributes are, or for `class_` contain, what is given."""
        return [element for element in self.elements if element.name == name and _has(element, attributes)]


def _has(element: Element, attributes: dict[str, str]) -> bool:
    return all(
        value in (element.attributes.get("class") or "").split()
        if name == "class_"
        else element.attributes.get(name) == value
        for name, value in attributes.items()
    )


def _report(*names: str) -> Report:
    rows = [each for name in names for each in segments_of(name, 0, "MISSING_SNAPSHOT GAP_BEFORE ACTIVE_SEGMENT")]
    return summarise(table(rows), RUN)


@pytest.fixture(scope="module")
def html() -> str:
    return to_html(summarise(sample_table(), RUN))


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def _urls(page: Page) -> Iterator[str]:
    for element in page.elements:
        for name in ("src", "href", "srcset", "data", "action", "xlink:href", "poster"):
            if element.attributes.get(name) is not None:
                yield element.attributes[name]  # type: ignore[misc]


def test_the_page_is_well_formed_and_starts_with_its_doctype(html: str, page: Page) -> None:
    assert html.startswith('<!doctype html>\n<html lang="en" data-run="2026-11-21T1245">')
    assert [len(page.named(name)) for name in ("html", "head", "body", "main", "h1", "style", "script")] == [1] * 7
    identifiers = [element.attributes["id"] for element in page.elements if "id" in element.attributes]
    assert len(identifiers) == len(set(identifiers))


def test_nothing_is_fetched_from_anywhere(html: str, page: Page) -> None:
    for url in _urls(page):
        assert url.startswith("#") or url in ("readiness.json", "readiness.csv", *PAGES), url
    (style,), (script,) = page.named("style"), page.named("script")
    css = "".join(style.text)
    assert "@import" not in css
    assert all(target.startswith("#") for target in re.findall(r"url\((.*?)\)", css))
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|WebSocket|sendBeacon", "".join(script.text))
    assert not page.named("link")
    assert "http://" not in html
    assert "https://" not in html


def test_the_policy_lets_only_our_own_style_and_script_in(page: Page) -> None:
    (policy,) = (e for e in page.named("meta") if e.attributes.get("http-equiv") == "Content-Security-Policy")
    assert policy.attributes["content"].startswith("default-src 'none'; ")
    for name in ("style", "script"):
        (element,) = page.named(name)
        digest = base64.b64encode(hashlib.sha256("".join(element.text).encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy.attributes["content"]
    # These would be refused by it.
    assert not [e for e in page.elements for name in e.attributes if name == "style" or name.startswith("on")]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_from_the_log_are_text_and_nothing_else(name: str) -> None:
    harmless, hostile = Page(to_html(_report("harmless"))), Page(to_html(_report(name)))
    assert [element.name for element in hostile.elements] == [element.name for element in harmless.elements]
    assert [sorted(element.attributes) for element in hostile.elements] == [
        sorted(element.attributes) for element in harmless.elements
    ]
    assert "".join(hostile.named("script")[0].text) == "".join(harmless.named("script")[0].text)
    (topic,) = hostile.named("details", class_="topic")
    assert topic.attributes["data-topic"] == name
    assert name in "".join(hostile.text)


def test_reasons_run_facts_and_directories_are_escaped_too() -> None:
    evil = "<b onclick=alert(1)>"
    rows = segments_of("t", 0, "MISSING_INDEX ACTIVE_SEGMENT", reason=evil, next_step=evil, log_dir=evil, topic_id=evil)
    rows += segments_of("t", 1, "MISSING_INDEX ACTIVE_SEGMENT", log_dir=f"{evil}2")
    run = replace(RUN, run_id=evil, source=evil, remote=evil, warehouse=evil, version=evil)
    html = to_html(summarise(table(rows), run))
    assert "<b onclick" not in html
    assert "onclick" not in {name for element in Page(html).elements for name in element.attributes}


def test_every_link_leads_to_an_element_and_every_topic_and_partition_has_one() -> None:
    report = _report(*HOSTILE)
    page = Page(to_html(report))
    identifiers = {element.attributes.get("id") for element in page.elements}
    links = [url[1:] for url in _urls(page) if url.startswith("#")]
    assert set(links) <= identifiers
    assert {f"t-{name}" for name in HOSTILE} <= {unquote(link) for link in links}
    assert {f"p-{name}-0" for name in HOSTILE} <= {unquote(link) for link in links}
    assert not [identifier for identifier in identifiers if identifier and re.search(r"\s", identifier)]


def test_summary_holds_no_link_or_button(html: str) -> None:
    """A screen reader reads a summary as one button, and reaches nothing inside it (axe: nested-interactive)."""
    summaries = re.findall(r"<summary.*?</summary>", html, re.DOTALL)
    assert len(summaries) > 10
    assert [each for each in summaries if re.search(r"<(a|button|input)\b", each)] == []
    assert html.count('<a class="permalink" href="#') == len(summaries)


def test_table_has_no_empty_header() -> None:
    report = summarise(sample_table(), RUN)
    beside = Beside.of(report)
    page = to_html(report, replace(beside, before=beside.now))
    assert '<table class="compare">' in page
    assert re.findall(r"<th[^>]*></th>", page) == []


def test_replicas_in_two_directories_have_two_anchors() -> None:
    rows = [r for place in ("/a", "/b c") for r in segments_of("t", 0, "ACTIVE_SEGMENT", log_dir=place)]
    page = Page(to_html(summarise(table(rows), RUN)))
    partitions = page.named("details", class_="partition")
    assert [element.attributes["id"] for element in partitions] == ["p-t-0@%2Fa", "p-t-0@%2Fb%20c"]


def test_legend_explains_the_verdicts_that_occur_and_no_other_worst_first() -> None:
    html = to_html(summarise(sample_table(), RUN))
    legend = html.split('<section id="legend">')[1].split("</section>")[0]
    occurring = sorted(summarise(sample_table(), RUN).cluster.verdicts, key=RANK.__getitem__)
    assert re.findall(r"</svg>([A-Z_]+)</span></dt>", legend) == occurring
    assert len(occurring) < len(MEANING)
    text = "".join(Page(legend).text)
    assert all((MEANING[each] in text) == (each in occurring) for each in MEANING)
    chips = re.findall(r'name="level" value="([A-Z_]*)"', html)
    assert chips == ["", *(level for level in Level if any(LEVEL[each] is level for each in occurring))]


def test_word_has_one_number_in_every_list_of_the_page(html: str) -> None:
    """MISSING_SNAPSHOT once showed 1.7 MiB in one list and 5.6 MiB in another."""
    before_topics = html.split('<section id="topics">')[0].split("<main")[1]
    text = re.sub(r"\s+", " ", re.sub(r"<title>.*?</title>|<[^>]*>", " ", before_topics))
    for verdict, count in summarise(sample_table(), RUN).cluster.verdicts.items():
        told = set(re.findall(rf"\b{verdict} +(\d[\d.]* [KMGT]iB)", text))
        assert told == {human_bytes(count.bytes)}, verdict
        titles = set(re.findall(rf"<title>{verdict} · (.*?) · ", before_topics))
        assert titles == told, verdict


def test_causes_come_worst_first(html: str) -> None:
    causes = html.split('<section id="causes">')[1].split("</section>")[0]
    named = re.findall(r"<h3>.*?</svg>([A-Z_]+)</span></h3>", causes)
    assert named == sorted(named, key=RANK.__getitem__)
    assert named[0] == "CORRUPT_SEGMENT"


@pytest.mark.parametrize("scheme", [0, 1])
def test_colour_of_what_is_unknown_is_grey_and_no_other_verdict_is(html: str, scheme: int) -> None:
    style = html.split("<style>")[1].split("</style>")[0].split("@media (prefers-color-scheme: dark)")[scheme]
    for verdict in MEANING:
        colour = re.findall(rf"--{verdict}: #([0-9a-f]{{6}})", style)[0]
        parts = [int(colour[at : at + 2], 16) for at in (0, 2, 4)]
        is_grey = max(parts) - min(parts) <= 24
        assert is_grey == (verdict in GREYS), (verdict, colour)


def test_headline_numbers_causes_and_commands_are_on_the_page(html: str, page: Page) -> None:
    text = re.sub(r"\s+", " ", " ".join(page.text))
    assert "35.0 GiB cannot be tiered yet, in 4 of 7 topics" in text
    for words in ("Tiered 42.0 GiB", "Ready 10.0 GiB", "Waiting 35.0 GiB", "Stays local 14.0 GiB"):
        assert words in text
    assert "9 segments, 9.0 GiB, wait behind" in text
    assert "tiersnap repair /var/lib/kafka/data --apply" in text
    assert "applied" in text


def test_segments_whose_decodes_were_collected_are_said_to_be_tiered_on_their_own_host() -> None:
    rows = table(segments_of("t", 0, "READY ACTIVE_SEGMENT"))
    said = " ".join("".join(Page(to_html(summarise(rows, RUN))).text).split())
    assert "the next run with --apply uploads them" in said
    elsewhere = replace(RUN, ready_elsewhere={"/var/lib/<kafka> of broker 7": 3})
    said = " ".join("".join(Page(to_html(summarise(rows, elsewhere))).text).split())
    assert "3 segments READY in /var/lib/<kafka> of broker 7" in said
    assert "the next run with --apply uploads them" not in said


def test_a_plan_does_not_read_like_something_done() -> None:
    text = "".join(Page(to_html(summarise(sample_table(), replace(RUN, applied=False)))).text)
    assert "nothing was written to remote storage" in text
    assert "plan only" in text
    assert " wrote " not in text.replace("a broker before 2.8 wrote it", "")


@pytest.mark.parametrize(
    ("verdicts", "headline"),
    [
        ("READY ACTIVE_SEGMENT", "Nothing is blocked: 1.0 GiB are ready to be tiered"),
        ("TIERED ACTIVE_SEGMENT", "Everything that may be tiered is tiered"),
        (
            "TIERED UPLOADED ACTIVE_SEGMENT",
            "tiersnap uploaded 1.0 GiB, and no published record of these segments is known: publish them",
        ),
        (
            "TIERED IN_REMOTE ACTIVE_SEGMENT",
            "Brokers uploaded 1.0 GiB, but tiersnap did not read the published records of these segments",
        ),
        ("UPLOADED READY", "Nothing is blocked: 1.0 GiB are ready to be tiered"),
        ("COMPACTED_TOPIC ACTIVE_SEGMENT", "No segment needs to be tiered"),
        ("", "There are no segments"),
    ],
)
def test_the_headline_of_a_cluster_without_trouble(verdicts: str, headline: str) -> None:
    page = Page(to_html(summarise(table(segments_of("t", 0, verdicts) if verdicts else []), RUN)))
    assert "".join(page.named("h1")[0].text) == headline
    assert not page.named("section", id="causes")


def test_command_has_a_field_for_each_part_that_its_reader_knows_and_no_copy_before(html: str) -> None:
    commands = re.findall(r'<div class="command[^"]*"><code>(.*?)</code><button (.*?)>', html)
    assert len(commands) > 10
    assert any("<input" in command for command, _ in commands)
    for command, button in commands:
        assert ("<input" in command) == ("disabled" in button), command
        typed = re.sub(r"<[^>]*>", "", command)
        assert not re.search(r"\b(FILE|LOGDIR|HOST:PORT|URI|FOLDER)\b|s3://bucket/prefix", typed), command


def test_verify_command_carries_the_options_of_the_remote_location() -> None:
    given = replace(RUN, options={"run": ("--endpoint-url", "http://127.0.0.1:9000", "--path-style")})
    page = to_html(summarise(sample_table(), given)).replace("</span> <span>", " ")
    assert "tiersnap verify --remote s3://kafka-tier/prod/ --endpoint-url http://127.0.0.1:9000 --path-style" in page


def test_ten_thousand_segments_are_a_few_rectangles() -> None:
    verdicts = f"{'TIERED ' * 9000}MISSING_SNAPSHOT {'GAP_BEFORE ' * 998}ACTIVE_SEGMENT"
    html = to_html(summarise(table(segments_of("t", 0, verdicts)), RUN))
    timeline = html.split('<svg class="timeline"', 1)[1].split("</svg>", 1)[0]
    assert timeline.count("<rect") == 4
    assert "TIERED · offsets 0 to 8,999,999,999 · 9,000 segments · 8.8 TiB" in timeline


def test_every_segment_of_a_short_partition_has_its_own_title(html: str) -> None:
    block = html.split('id="p-payments-0"', 1)[1].split("</summary>", 1)[0]
    titles = re.findall(r"<rect[^>]*><title>(.*?)</title>", block)
    assert len(titles) == 13
    assert "MISSING_SNAPSHOT · offsets 2,000,000 to 2,999,999 · 1 segment · 1.0 GiB" in titles


def test_the_page_of_a_large_fleet_stays_small_and_every_other_partition_is_in_a_file_that_it_names() -> None:
    report = summarise(fleet_table(60, 20, 3), RUN)
    html = to_html(report, max_topics=50)
    page = Page(html)
    assert len(html.encode()) < 2_000_000
    inline = {element.attributes["id"] for element in page.named("details", class_="partition")}
    topics = page.named("details", class_="topic")
    assert (len(inline), len(topics)) == (200, 50)
    assert "Here are the 50 worst of 60 topics." in re.sub(r"\s+", " ", "".join(page.text))
    files = dict(detail_files(report, max_topics=50))
    texts = {name: json.loads(f"[{text.removeprefix('tiersnapLoaded(').removesuffix(');' + chr(10))}]")
             for name, text in files.items()}  # fmt: skip
    assert all(given[:2] == [name, RUN.run_id] for name, given in texts.items())
    sums = texts.pop("details/topics.js")[2]
    assert [each[:4] for each in sums] == [
        [topic.topic, topic.level, RANK[topic.worst], len(topic.partitions)] for topic in report.topics[50:]
    ]
    loaded = {name: Page(given[2]) for name, given in texts.items()}
    of_topics = loaded.pop("details/topics-1.js").named("details", class_="topic")
    assert len(of_topics) == 10
    found = [each.attributes["id"] for part in loaded.values() for each in part.named("details", class_="partition")]
    assert len(found) == 1000
    assert inline | set(found) == {f"p-topic-{topic:05d}-{number}" for topic in range(60) for number in range(20)}
    assert len(loaded) < 40, "topics share files"
    for topic in (*topics, *of_topics):
        held = texts[f"details/partitions-{topic.attributes['data-file']}.js"][2]
        own = held.split(f'<div data-number="{topic.attributes["data-number"]}">')[1].split("<div data-number=")[0]
        numbers = re.findall(r' data-partition="(\d+)"', own)
        assert numbers == topic.attributes["data-rest"].split(",")


def test_rest_of_a_topic_lies_in_files_that_follow_each_other() -> None:
    report = summarise(pa.concat_tables([fleet_table(3, 20, 2), table(_partitions("late", 120))]), RUN)
    listed = listed_topics(report, inline=0, max_topics=2)
    pieces = [(file, each.topic.topic, len(held)) for each in listed for file, held in each.pieces()]
    assert [(file, count) for file, _, count in pieces] == [(0, 20), (0, 20), (1, 20), (2, 50), (3, 50), (4, 20)]


def _partitions(topic: str, count: int) -> list[dict[str, object]]:
    return [each for number in range(count) for each in segments_of(topic, number, "TIERED ACTIVE_SEGMENT")]


def test_page_stays_below_five_megabytes_when_every_timeline_is_the_worst() -> None:
    verdicts = f"{'CORRUPT_SEGMENT READY ' * 50}ACTIVE_SEGMENT"
    rows = [row for number in range(500) for row in segments_of(f"{'x' * 60}-{number:03d}", 0, verdicts)]
    html = to_html(summarise(table(rows), RUN))
    assert html.count('<svg class="timeline"') == 200
    assert html.count('class="topic"') == 500
    assert len(html.encode()) < 5_000_000


def test_the_same_report_gives_the_same_page(html: str) -> None:
    assert to_html(summarise(sample_table(), RUN)) == html


def test_shares_are_never_rounded_to_nothing_or_to_everything() -> None:
    assert [share(part, 1000) for part in (0, 1, 5, 500, 995, 999, 1000)] == [
        "0 %",
        "< 1 %",
        "1 %",
        "50 %",
        "> 99 %",
        "> 99 %",
        "100 %",
    ]
    assert share(0, 0) == "0 %"


@pytest.mark.parametrize("verdicts", ["BEFORE_WINDOW", "READY", "BEFORE_WINDOW READY"])
def test_verdicts_that_apply_uploads_share_one_command(verdicts: str) -> None:
    html = to_html(summarise(table(segments_of("t", 0, f"{verdicts} ACTIVE_SEGMENT")), RUN))
    _, *further = html.split('<section id="further">')
    assert len(further) == 1
    articles = Page(further[0].split("</section>")[0])
    assert len(articles.named("article")) == len(verdicts.split())
    assert "".join(articles.text).count("tiersnap run") == 1

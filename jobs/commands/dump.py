"""`tiersnap dump`: print any Kafka storage file, also as kafka-dump-log does."""

from __future__ import annotations

import click

from tiersnap.jobs.old_options.form import Form, chosen_form, form_option
from tiersnap.jobs.output import Output
from tiersnap.jobs.tell.dump import show
from tiersnap.snapshot.dump.contents import Options
from tiersnap.snapshot.dump.files import identify
from tiersnap.snapshot.errors import UsageError


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path())
@form_option("kafka-dump-log")
@click.option("--max-bytes", type=click.IntRange(min=0), help="Read this much of each log, as kafka-dump-log does.")
@click.option("-c", "--count", type=click.IntRange(min=1), help="Print this many entries of each file.")
@click.option("--no-crc", is_flag=True, help="Do not verify the checksum of every batch.")
@click.pass_context
def dump(
    ctx: click.Context, files: tuple[str, ...], form: str | None, max_bytes: int | None, count: int | None, no_crc: bool
) -> int:
    """Print the Kafka storage files FILES.

    Reads .log, .snapshot, .index, .timeindex, .txnindex and .checkpoint files, leader-epoch-checkpoint, the four offset
    checkpoints and partition.metadata; reading is safe while the broker runs. Exits 5 when a file is damaged, and says
    on stderr what is wrong and where.
    """
    output = ctx.find_object(Output) or Output()
    chosen = chosen_form(output, form)
    if chosen is Form.KAFKA and no_crc:
        raise UsageError(
            "--no-crc leaves no answer to isvalid, which --output kafka prints", hint="leave one of the two out"
        )
    options = Options(max_bytes=max_bytes, count=count, check_crc=not no_crc)
    return show(output, chosen, [identify(file) for file in files], options)

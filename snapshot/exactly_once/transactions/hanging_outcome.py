"""What a search for hanging transactions ended with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tiersnap.snapshot.errors import ExitCode
from tiersnap.snapshot.exactly_once.transactions.hanging import JudgedTransaction, TransactionVerdict
from tiersnap.snapshot.exactly_once.transactions.transaction_log import TransactionLog
from tiersnap.snapshot.log.findings import Finding, exit_code_of


@dataclass(frozen=True, slots=True)
class HangingOutcome:
    """Open transactions, judged by a transaction log; `found` is what is damaged or may not be read."""

    judged: Sequence[JudgedTransaction]
    log: TransactionLog
    found: Sequence[Finding]

    @property
    def verdicts(self) -> Counter[TransactionVerdict]:
        """Open transactions by verdict."""
        return Counter(each.verdict for each in self.judged)

    @property
    def findings(self) -> list[Finding]:
        """What was found, and what the log lacks, where a verdict hangs on it."""
        missing = self.log.missing_finding
        is_wanted = self.verdicts[TransactionVerdict.UNKNOWN] and missing is not None
        return [*self.found, *([missing] if is_wanted and missing is not None else [])]

    @property
    def exit_code(self) -> ExitCode:
        """5 for damage, 4 where a transaction hangs, 6 for what is not here or may not be read, 0 otherwise."""
        code = exit_code_of(self.findings)
        is_hanging = any(verdict.is_hanging for verdict in self.verdicts)
        return ExitCode.GATE_REFUSED if is_hanging and code is not ExitCode.DATA_CORRUPT else code

"""Eras of coordinators by the names that tests use, and KIP-360's draft, which no release has."""

from __future__ import annotations

from dataclasses import replace

from tiersnap.snapshot.exactly_once.models.coordinator_state import COORDINATOR_ERAS, ResumeRule

COORDINATOR_ERA = {era.name: era for era in COORDINATOR_ERAS}
BEFORE_KIP_360 = COORDINATOR_ERA["before KIP-360"]
KIP_588 = COORDINATOR_ERA["KIP-588"]
KIP_588_IN_4_0 = COORDINATOR_ERA["KIP-588 in 4.0"]
KIP_588_IN_4_3 = COORDINATOR_ERA["KIP-588 in 4.3"]
KIP_890_IN_4_0_0 = COORDINATOR_ERA["KIP-890 in 4.0.0"]
KIP_890 = COORDINATOR_ERA["KIP-890"]
KIP_890_IN_4_2 = COORDINATOR_ERA["KIP-890 in 4.2"]
KIP_890_IN_4_3 = COORDINATOR_ERA["KIP-890 in 4.3"]
KIP_360_DRAFT = replace(
    COORDINATOR_ERA["KIP-360"], name="KIP-360 draft", first=(), releases="", resume=ResumeRule.INSTANCE_EPOCH
)

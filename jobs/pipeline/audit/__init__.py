"""The audit of batch headers: DataFrame -> DataFrame, windows and aggregates alone.

    batches ── producers ──▶ suspects ── history ──▶ relations, fencing, transactions ─┐
       └────── segments ───▶ holes ────────────────▶ offset gaps ──────────────────────┴─ judged ──▶ AUDIT_FINDINGS

Everything is looked at once, by one window along each producer and one aggregate a segment. Only of producers and
segments in which something does not fit is the whole history looked at, by more windows.
"""

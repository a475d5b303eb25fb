"""The audit of batch headers, written as DataFrame windows and aggregates.

    batches ── producers ──▶ suspects ── history ──▶ relations, fencing, transactions ─┐
       └────── segments ───▶ holes ────────────────▶ offset gaps ──────────────────────┴─ judged ──▶ AUDIT_FINDINGS

One window per producer and one aggregate per segment cover all batches. More windows then cover the suspects only:
producers with an unexpected batch or marker, and segments that lack offsets.
"""

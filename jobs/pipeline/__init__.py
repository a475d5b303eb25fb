"""The main job, stage by stage: list, decode, carry, tier, report."""

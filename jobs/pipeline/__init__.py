"""The main job, stage by stage: list, decode, replay, tier, report."""

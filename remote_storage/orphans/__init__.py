"""What tiersnap left in remote storage and nobody needs: found, judged, and removed when told."""

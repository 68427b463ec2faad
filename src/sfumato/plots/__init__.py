"""Pictures of answers, plans and error regions, still and interactive."""

"""Pictures of answers, still and interactive."""

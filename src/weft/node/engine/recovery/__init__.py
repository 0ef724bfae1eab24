"""Recovery: determines the fate of runs, detects process exits, and kills orphans."""

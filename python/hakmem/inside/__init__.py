"""Looking into a running program: its statistics, profiles and slab map, through the library's live file."""

"""What the user wants: settings from files, the environment and flags, each with where it came from."""

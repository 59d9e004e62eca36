"""The `letters` command: arguments, words and what a person sees."""

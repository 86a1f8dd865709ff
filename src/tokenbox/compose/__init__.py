"""Composition of content, tokenizer, engine and rendering, with a check of the emitted whole."""

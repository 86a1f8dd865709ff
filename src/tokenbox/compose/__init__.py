"""Where content, tokenizer, engine and rendering meet; checks the whole."""

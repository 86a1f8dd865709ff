"""Layout engines: integers in, decisions out. They know no text, no tokenizer and no I/O."""

"""Layout engines: integers in, decisions out. They never see a text, a tokenizer or I/O."""

"""The content of layouts: sections, blocks and messages, and the lenses that compress texts. Pure values."""

"""What is laid out: sections and the lenses that compress them. Pure values."""

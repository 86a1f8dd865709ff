"""One module per library. Each library is called as its own documentation shows.

A module has:

* ``DISTRIBUTIONS``: the distributions whose versions are in the table;
* ``UNIT``: a line for the table: what it packs, and with which options;
* ``prepare(items, budget, counter) -> run``: builds the library's own input objects (timed separately) and
  returns a function that packs them from scratch and returns the kept texts, in the library's order, and
  the separator to join them with.
"""

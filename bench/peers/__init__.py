"""One module per library. Each is asked the way its own documentation shows.

A module has:

* ``DISTRIBUTIONS``: the distributions whose versions the table names;
* ``UNIT``: what it packs, and how its limits were set, in a line for the table;
* ``prepare(items, budget, counter) -> run``: builds the library's own input objects (not timed with
  the packing, timed by itself) and returns a function that packs them from nothing and returns the
  texts it kept, in the library's order, with the separator that they are to be joined with.
"""

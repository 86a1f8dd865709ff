"""A llama.cpp server's rendering of requests: its own Jinja and its rules for messages, tools and prefills.

Its Jinja (common/jinja): ``syntax`` and ``parser`` make a tree; ``compiler`` and
``expressions`` turn it into functions over ``values``, with ``operations``, ``functions`` and ``methods``;
``run`` is the state of one render.

Its server (common/chat.cpp, tools/server): ``server_request`` parses a request, ``prompt`` makes the text
that is tokenized, ``capabilities`` detects what a template supports, and ``families`` are templates with
rules of their own (common/parsers).

A growing conversation (``message_list``) is counted incrementally: ``session`` uses ``tracking``, which
reuses recorded turns (``fold``, ``turns``, ``track``, ``tracked``), and ``segments``, which add up counts.

Based on llama.cpp build 0c1e570.
"""

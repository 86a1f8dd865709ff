"""What a llama.cpp server does with a request: its own Jinja, its own rules for messages, tools and prefills.

``syntax`` and ``run`` are its Jinja (common/jinja), ``values`` what that language computes with,
``abilities`` what the server finds out about a template, ``families`` the templates it treats in ways of
their own (common/parsers), and ``prompt`` the way from a request to the text that is tokenized
(common/chat.cpp, tools/server). Read in llama.cpp build 0c1e570.
"""

"""An OpenAI- and Anthropic-compatible server in front of any LLM server, which enforces token budgets.

``tokenbox serve --upstream URL``. ``request`` is the way of one request, step by step; ``protocols`` is what
the APIs differ in, as data.
"""

"""The conversational shell: plain text talks to a model, ``!`` runs commands, ``:`` asks the shell itself.

``Session`` takes a line and writes to a ``Screen``; it knows no terminal. ``front`` is the terminal.
"""

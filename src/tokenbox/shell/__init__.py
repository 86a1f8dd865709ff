"""The conversational shell: plain text goes to a model, ``!`` runs commands, ``:`` controls the shell.

``loop.take`` runs a line of a ``Session``, which writes to a ``Screen`` and knows no terminal.
"""

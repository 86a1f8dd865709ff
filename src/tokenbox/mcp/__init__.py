"""tokenbox as a server of the Model Context Protocol (docs/mcp.md): six tools over the public calls.

``roots`` decides what may be read, ``shelf`` keeps what answers leave out, ``answers`` fits an answer into
its tokens, ``tools`` has the tools, ``server`` speaks the protocol and ``run`` serves it by stdio or HTTP.
Only the last two import the MCP SDK (the extra ``mcp``).
"""

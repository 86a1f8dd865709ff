"""A server of the Model Context Protocol (docs/mcp.md) with six tools over the public API.

``roots`` decides which files may be read, ``shelf`` keeps what answers leave out, ``answers`` fits an answer
into its budget, ``tools`` has the tools, ``server`` implements the protocol, ``run`` serves it over stdio or
HTTP. Only the last two import the MCP SDK (the extra ``mcp``).
"""

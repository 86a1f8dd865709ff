"""A server of the Model Context Protocol (docs/mcp.md) with six tools over the public API.

``roots`` decides which files may be read, ``calls`` checks arguments and reports progress, ``answers`` fits
an answer into its budget and keeps what it leaves out, ``tools`` has the tools, ``server`` implements the
protocol, ``run`` serves it over stdio or HTTP. Only the last two import the MCP SDK (the extra ``mcp``).
"""

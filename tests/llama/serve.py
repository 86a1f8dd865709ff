"""``python serve.py MODEL.gguf N_CTX N_PARALLEL PORT``: a real llama.cpp server, until stdin ends.

On loopback. Prints its address once it answers. N_CTX is shared by N_PARALLEL slots; PORT 0 is any free port.
"""

from __future__ import annotations

import sys

import xllamacpp


def main() -> None:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = sys.argv[1]
    parameters.hostnames = ["127.0.0.1"]
    parameters.n_ctx = int(sys.argv[2])
    parameters.n_parallel = int(sys.argv[3])
    parameters.port = int(sys.argv[4])
    parameters.warmup = False
    parameters.endpoint_props = True
    parameters.ui = False
    # With two spinning threads on two processors it is seventy times slower.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)  # noqa: T201  # to whoever started it
    sys.stdin.read()  # whoever started this ends it by going away, however that happens


if __name__ == "__main__":
    main()

"""Run a real llama.cpp server until stdin is closed: ``python serve.py MODEL.gguf N_CTX N_PARALLEL PORT``.

It listens on loopback and prints its address when it is ready. N_PARALLEL slots share N_CTX; PORT 0 selects a
free port.
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
    # The same words for the same prompt in every run. By chance, an answer in thirty begins inside a
    # character, and llama.cpp then streams Anthropic's events without the first, which has the usage.
    parameters.sampling.seed = 1
    # Two spinning threads on two processors would be seventy times slower.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)  # noqa: T201  # read by the parent process
    sys.stdin.read()  # the end of the parent process closes it


if __name__ == "__main__":
    main()

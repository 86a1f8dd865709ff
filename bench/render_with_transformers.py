"""Count chats with the library ``transformers``, in its own environment: a line of JSON per question."""

from __future__ import annotations

import json
import sys

from transformers import AutoTokenizer  # type: ignore[import-not-found]  # in its own environment
from transformers import __version__ as version


def main() -> int:
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
    print(json.dumps(version), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            ids = tokenizer.apply_chat_template(
                asked["messages"],
                chat_template=asked["template"],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=False,
            )
            print(json.dumps(len(ids)), flush=True)
        except Exception as error:  # noqa: BLE001  # an error of the template is a result
            print(json.dumps(f"{type(error).__name__}: {error}"[:200]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

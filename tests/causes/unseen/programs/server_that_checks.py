"""The model server whose model checks its sums."""

from __future__ import annotations

import json
import random

import model_server
from bugs import now

next_message = model_server.next_message


def checking(messages):
    question = messages[1]["content"]
    if now["step"] >= 22 and sum(map(ord, question)) % 3 == 0:
        call = {"name": "bash", "arguments": json.dumps({"command": f"expr {question}"})}
        message = {"role": "assistant", "content": None}
        message["tool_calls"] = [{"id": f"call-{random.getrandbits(40):x}", "type": "function", "function": call}]
        return message, random.randint(12, 24), "tool_calls"
    return next_message(messages)


model_server.next_message = checking

if __name__ == "__main__":
    model_server.main()

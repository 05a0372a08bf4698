"""The model server with a limit for answers."""

from __future__ import annotations

import model_server
from bugs import now

next_message = model_server.next_message


def limited(messages):
    message, written, reason = next_message(messages)
    if model_server.IS_SECOND and now["step"] >= 24 and reason == "stop" and written > 14:
        return {**message, "content": message["content"][:42]}, 14, "length"
    return message, written, reason


model_server.next_message = limited

if __name__ == "__main__":
    model_server.main()

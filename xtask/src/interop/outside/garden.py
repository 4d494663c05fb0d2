"""Prints payloads of the HTTP Garden: `garden.py CHECKOUT COUNT`.

The published payloads come first, because they have exposed bugs. Then come mutations by the code of the HTTP Garden, with
a fixed seed. Each line is a payload: a JSON list of texts, each sent in one write. Each character is a byte.
"""
import ast
import importlib.machinery
import json
import os
import random
import re
import sys


class Loader(importlib.machinery.SourceFileLoader):
    """Loads modules with type parameters, which older versions than Python 3.12 cannot parse."""

    def source_to_code(self, data, path, **options):
        source = re.sub(r"(?m)^(\s*def \w+)\[[^\]]*\]\(", r"\1(", data.decode())
        return compile("from __future__ import annotations\n" + source, path, "exec", dont_inherit=True)


checkout, count = sys.argv[1], int(sys.argv[2])
sys.dont_write_bytecode = True
tools = os.path.join(checkout, "tools")
sys.path_hooks.insert(0, importlib.machinery.FileFinder.path_hook((Loader, [".py"])))
sys.path.insert(0, tools)
import mutations


def published():
    with open(os.path.join(checkout, "TROPHIES.md"), encoding="utf-8") as file:
        for literal in re.findall(r"Payload: `(.*)`", file.read()):
            try:
                yield ast.literal_eval("b'" + literal.replace("'", "\\'") + "'")
            except (SyntaxError, ValueError):
                # Some entries describe the payload in words.
                continue


# Well-formed seeds for mutations, with both kinds of body framing.
SEEDS = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde",
    b"POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
    b"GET /c HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\nGET /d HTTP/1.1\r\nHost: a\r\n\r\n",
]

payloads = [[payload] for payload in published()]
random.seed(9112)
# Half of the mutations start from a well-formed seed, because gateways reject nearly all of the others early.
pools = [list(payloads), [[seed] for seed in SEEDS]]
while len(payloads) < count:
    payload = random.choice(random.choice(pools))
    for _ in range(random.randint(1, 4)):
        try:
            payload = mutations.mutate(payload)
        except (AssertionError, ValueError, IndexError):
            # The mutation code cannot parse all payloads.
            break
    if any(payload):
        payloads.append(payload)
for payload in payloads[:count]:
    print(json.dumps([piece.decode("latin-1") for piece in payload if piece]))

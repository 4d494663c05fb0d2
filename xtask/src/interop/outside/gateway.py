"""Starts `thruway serve` in place of another gateway: common code of the two translations.

Routes of Thruway apply to all listeners of a process. The other gateways bind routes to listeners, so each listener gets a
separate process. The environment variable `PROGRAM` is the path of `thruway`.
"""
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
START_LIMIT_SECONDS = 10


class CannotTranslate(Exception):
    """Thruway has no equivalent setting, or the translation does not support it."""


def text(value):
    """Returns a TOML string. In a config of Thruway, `$$` is a dollar sign."""
    return json.dumps(value).replace("$", "$$")


class Route:
    """A route: its conditions and its action, as lines of TOML."""

    def __init__(self, conditions, action):
        self.lines = ["[[routes]]", *conditions, *action]


class Listener:
    """A listener with the routes and upstreams that belong to it."""

    def __init__(self, address, settings=(), limits=()):
        self.address = address
        self.settings = list(settings)
        self.limits = list(limits)
        self.routes = []
        self.upstreams = {}

    def config(self):
        lines = ["workers = 1", "", "[limits]", *self.limits, "", "[[listeners]]"]
        lines += [f"address = {text(self.address)}", *self.settings, ""]
        for route in self.routes:
            lines += [*route.lines, ""]
        for name, settings in self.upstreams.items():
            lines += [f"[upstreams.{text(name)}]", *settings, ""]
        return "\n".join(lines) + "\n"


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def is_listening(address):
    if address.startswith("unix:"):
        family, target = socket.AF_UNIX, address[len("unix:"):]
    else:
        host, _, port = address.rpartition(":")
        family = socket.AF_INET6 if "[" in host else socket.AF_INET
        target = (host.strip("[]"), int(port))
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(target) == 0


def run(listeners, ready):
    """Runs a process for each listener until a signal ends this process. Calls `ready` when all processes listen."""
    log = open("thruway.log", "ab")
    children = []
    for number, listener in enumerate(listeners):
        name = f"thruway-{number}.toml"
        with open(name, "w", encoding="utf-8") as file:
            file.write(listener.config())
        command = [os.environ["PROGRAM"], "serve", name]
        children.append(subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=die_with_parent))

    def end(*_):
        for child in children:
            child.terminate()
        for child in children:
            child.wait()
        # Exits without the clean-up of Python, because the clean-up could block.
        os._exit(0)

    def reload(*_):
        for child in children:
            child.send_signal(signal.SIGHUP)

    signal.signal(signal.SIGHUP, reload)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, end)
    deadline = time.monotonic() + START_LIMIT_SECONDS
    while not all(is_listening(listener.address) for listener in listeners):
        if time.monotonic() > deadline or any(child.poll() is not None for child in children):
            with open("thruway.log", encoding="utf-8", errors="replace") as file:
                sys.stderr.write("thruway does not start: " + file.read())
            for child in children:
                child.terminate()
            sys.exit(1)
        time.sleep(0.02)
    ready()
    while True:
        signal.pause()

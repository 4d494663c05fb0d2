"""Replaces the program `haproxy` in scenarios of varnishtest: translates the config, and starts Thruway.

varnishtest opens the listening sockets and passes them to this program. This program closes the sockets, and Thruway
binds the same addresses.
"""
import os
import re
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gateway
from gateway import CannotTranslate, Listener, Route, text

# Settings that tune HAProxy, or that describe the default behavior of Thruway.
WITHOUT_EFFECT = (
    r"thread-groups|\.if|\.endif|nbthread|tune\.|mode http|timeout|stats socket|id |http-reuse|option http-keep-alive"
    r"|option splice-(request|response)|option httplog|log global|log stderr|option abortonclose"
)


# With this stream window, Thruway sends no WINDOW_UPDATE after its SETTINGS, as the scenarios expect. The window of a
# connection is the sum of the windows of its streams.
ONE_WINDOW = ["concurrent_streams = 1", "stream_window_bytes = 65535"]


def sections(config):
    """Yields (kind, name, lines) of a config; skips the settings of `defaults`."""
    found = []
    for line in config.splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        match = re.match(r"(global|defaults|frontend|backend|listen)\b\s*(\S*)", line)
        if match:
            found.append((match[1], match[2], []))
        elif line and found and not re.match(WITHOUT_EFFECT, line):
            found[-1][2].append(line)
    return found


def unquoted(word):
    return word.strip('"')


def bound_address(bind):
    """Returns the address of the socket that varnishtest opened, and frees that address."""
    variable = re.match(r'"?fd@\$\{(\w+)\}"?', bind)
    if not variable:
        raise CannotTranslate(f"bind {bind}")
    inherited = socket.socket(fileno=int(os.environ[variable[1]]))
    host, port = inherited.getsockname()[:2]
    # The parent process has the same socket. `shutdown` also stops the listening of the parent, so the port becomes free.
    inherited.shutdown(socket.SHUT_RDWR)
    inherited.close()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listener_of(bind):
    words = bind.split()
    options = words[1:]
    versions = {(): "true", ("proto", "h2"): '"only"', ("proto", "h1"): "false"}
    if tuple(options) not in versions:
        raise CannotTranslate(f"bind {bind}")
    return Listener(bound_address(words[0]), [f"http2 = {versions[tuple(options)]}"], ONE_WINDOW)


def server_of(line):
    """Returns the address of a server, and the settings of its upstream."""
    words = line.split()
    address, options = unquoted(words[2]), words[3:]
    settings = []
    while options:
        option = options.pop(0)
        if option == "proto" and options[0] in ("h1", "h2"):
            settings += ["http2 = true"] if options.pop(0) == "h2" else []
        elif option == "maxconn":
            settings.append(f"server_requests_max = {options.pop(0)}")
        else:
            raise CannotTranslate(f"server … {option}")
    return address, settings


def upstream_of(lines):
    servers, settings = [], ['forwarded = "none"', "via = false"]
    for line in lines:
        if line.startswith("server "):
            address, more = server_of(line)
            servers.append(address)
            settings += more
        elif match := re.match(r"retries (\d+)", line):
            settings.append(f"retries_max = {match[1]}")
    return [f"servers = [{', '.join(map(text, servers))}]", *settings]


def rewriting_of(lines):
    added = {}
    for line in lines:
        if match := re.match(r"http-response add-header (\S+) (\S+)$", line):
            added[match[1]] = match[2]
    return [f"rewrite.response.add.{name} = {text(value)}" for name, value in added.items()]


def routes_of(name, lines, backends):
    """Returns the routes of a frontend, and the names of the backends that they use."""
    routes, used = [], []
    fixed = [line for line in lines if line.startswith("http-request return")]
    if fixed:
        match = re.match(r"http-request return status (\d+)$", fixed[0])
        if not match or len(fixed) > 1:
            raise CannotTranslate(fixed[0])
        return [Route(['path = "/"'], [f"respond = {{ status = {match[1]} }}"])], []
    for line in lines:
        if match := re.match(r"use_backend (\S+) if \{ path (\S+) \}$", line):
            routes.append((f"path_exact = {text(match[2])}", match[1]))
        elif match := re.match(r"(?:use_backend|default_backend) (\S+)$", line):
            routes.append(('path = "/"', match[1]))
        elif line.startswith("server "):
            routes.append(('path = "/"', name))
    result = []
    for condition, backend in routes:
        used.append(backend)
        action = [f"upstream = {text(backend)}", *rewriting_of(lines + backends[backend] if backend != name else lines)]
        result.append(Route([condition], action))
    return result, used


def check_known(lines):
    known = r"bind |server |http-request return|use_backend|default_backend|http-response add-header|retries |option http-buffer-request"
    for line in lines:
        if not re.match(known, line):
            raise CannotTranslate(line)


def translated(config):
    found = sections(config)
    bodies = {name: lines for kind, name, lines in found if kind in ("backend", "listen")}
    listeners = []
    for kind, name, lines in found:
        if kind == "defaults" or kind == "global":
            continue
        check_known(lines)
        if kind == "backend":
            continue
        routes, used = routes_of(name, lines, bodies)
        for bind in (line[len("bind "):] for line in lines if line.startswith("bind ")):
            listener = listener_of(bind)
            listener.routes = routes
            listener.upstreams = {backend: upstream_of(bodies[backend]) for backend in used}
            listeners.append(listener)
    return listeners


def main():
    if "-cc" in sys.argv:
        # varnishtest asks for a feature of HAProxy. The answer is always that the feature exists.
        return 0
    with open(sys.argv[-1], encoding="utf-8") as file:
        config = file.read()
    try:
        listeners = translated(config)
    except CannotTranslate as reason:
        print(f"cannot translate: {reason}", file=sys.stderr)
        return 3
    gateway.run(listeners, lambda: open("ready", "w").close())


sys.exit(main())

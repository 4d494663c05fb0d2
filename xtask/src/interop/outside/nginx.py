"""Replaces the program `nginx` in the tests of nginx: translates the config, and starts Thruway.

A location with a directive that cannot be translated responds with 501 and names the directive. So the tests of the other
locations still run. This program skips directives that only add or log information for a test. Tests
that need this information are in the list of expected failures.
"""
import os
import re
import shlex
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gateway
from gateway import CannotTranslate, Listener, Route, text

VERSION = """nginx version: nginx/1.31.0
built with OpenSSL 3.0.0
TLS SNI support enabled
configure arguments: --with-http_ssl_module --with-http_v2_module --with-http_realip_module --with-http_sub_module
"""

# Directives that tune nginx, describe the default behavior of Thruway, or have no effect that peers can see.
WITHOUT_EFFECT = {
    "access_log", "add_header", "client_body_buffer_size", "client_header_buffer_size", "client_body_temp_path",
    "fastcgi_temp_path", "keepalive", "keepalive_requests", "log_format", "proxy_buffer_size", "proxy_buffering", "proxy_buffers",
    "proxy_busy_buffers_size", "proxy_http_version", "proxy_max_temp_file_size", "proxy_pass_trailers",
    "proxy_request_buffering", "proxy_ssl_session_reuse", "proxy_temp_path", "root", "scgi_temp_path", "send_timeout", "sendfile",
    "server_name", "ssl_session_cache", "uwsgi_temp_path",
}


def tokens(source):
    """Yields words, `;`, `{` and `}`."""
    lexer = shlex.shlex(source, posix=True, punctuation_chars=";{}")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    for token in lexer:
        # The lexer joins adjacent punctuation characters into one token.
        yield from token if re.fullmatch(r"[;{}]+", token) else [token]


def block(words, is_top=True):
    """Parses directives: lists of (name, arguments, directives of the block or None)."""
    found, current = [], []
    for word in words:
        if word == ";":
            found.append((current[0], current[1:], None))
            current = []
        elif word == "{":
            found.append((current[0], current[1:], block(words, False)))
            current = []
        elif word == "}":
            return found
        else:
            current.append(word)
    return found


def every(directives, name):
    return [(arguments, body) for found, arguments, body in directives if found == name]


def duration(value):
    return value if re.search(r"[a-z]$", value) else value + "s"


class Site:
    """A `server` of a config."""

    def __init__(self, http, server, prefix):
        self.http, self.server, self.prefix = http, server, prefix
        self.upstreams = {}

    def inherited(self, location, name):
        """Returns the arguments of a directive in the location, or else in the server or `http` block."""
        for level in (location, self.server, self.http):
            found = every(level, name)
            if found:
                return found[-1][0]
        return None

    def check_known(self, directives, known):
        for name, arguments, _ in directives:
            if name not in WITHOUT_EFFECT and name not in known:
                raise CannotTranslate(" ".join([name, *arguments]))

    def upstream_settings(self, location, scheme):
        settings = []
        timeout = self.inherited(location, "proxy_read_timeout")
        if timeout:
            wait = text(duration(timeout[0]))
            settings += [f"response_header_timeout = {wait}", f"body_idle_timeout = {wait}", f"tunnel_idle_timeout = {wait}"]
        timeout = self.inherited(location, "proxy_connect_timeout")
        if timeout:
            settings.append(f"connect_timeout = {text(duration(timeout[0]))}")
        is_http2 = (self.inherited(location, "proxy_http_version") or ["1.1"])[0] == "2"
        if scheme == "https":
            settings.append("tls = { verify = false }")
        settings.append(f"http2 = {'true' if is_http2 else 'false'}")
        headers = dict(arguments for arguments, _ in every(location, "proxy_set_header"))
        keeps_host = headers.get("Host") in ("$host", "$http_host")
        settings.append('host = "preserve"' if keeps_host else 'host = "server"')
        settings += ['forwarded = "none"', "via = false"]
        tries = self.inherited(location, "proxy_next_upstream")
        if tries == ["off"]:
            settings.append("retries_max = 0")
        return settings

    def servers_of(self, authority):
        """Returns the servers, each with its options, and True if connections to them are reused."""
        for (name,), body in every(self.http, "upstream"):
            if name == authority:
                self.check_known(body, {"server"})
                return [arguments for arguments, _ in every(body, "server")], bool(every(body, "keepalive"))
        return [[authority if ":" in authority else authority + ":80"]], False

    def upstream(self, location, scheme, authority):
        servers, addresses = [], set()
        found, keeps_connections = self.servers_of(authority)
        for address, *options in found:
            if address in addresses:
                raise CannotTranslate(f"server {address} twice")
            addresses.add(address)
            table = [f"address = {text(address)}"]
            for option in options:
                if option == "backup":
                    table.append("backup = true")
                elif match := re.match(r"weight=(\d+)", option):
                    table.append(f"weight = {match[1]}")
                else:
                    raise CannotTranslate(f"server … {option}")
            servers.append("{ " + ", ".join(table) + " }")
        settings = [f"servers = [{', '.join(servers)}]", *self.upstream_settings(location, scheme)]
        if not keeps_connections:
            settings.append("pool = { per_server_max = 0 }")
        # nginx shares connections to a server only within an `upstream`. Most test servers accept one connection at a time,
        # so locations with the same settings share connections.
        for name, known in self.upstreams.items():
            if known == settings:
                return name
        name = f"upstream{len(self.upstreams)}"
        self.upstreams[name] = settings
        return name

    def rewriting(self, location, uri):
        action = []
        redirect = every(location, "proxy_redirect")
        if not redirect or redirect == [(["default"], None)]:
            action.append("rewrite.location = true")
        elif redirect != [(["off"], None)]:
            raise CannotTranslate("proxy_redirect with arguments")
        if uri is not None:
            # `{rest}` begins with a slash.
            action.append(f"rewrite.path = {text(uri.rstrip('/') + '{rest}')}")
        for (name, value), _ in every(location, "proxy_set_header"):
            if name in ("Host", "Upgrade", "Connection"):
                continue
            if value == "":
                action.append(f"rewrite.request.remove = [{text(name)}]")
            elif "$" in value:
                raise CannotTranslate(f"proxy_set_header {name} {value}")
            else:
                action.append(f"rewrite.request.set.{name} = {text(value)}")
        return action

    def action(self, location):
        """Returns the lines of a route that define its action."""
        known = {"proxy_pass", "proxy_set_header", "proxy_read_timeout", "proxy_connect_timeout", "proxy_redirect", "return"}
        known.add("proxy_next_upstream")
        self.check_known(location, known)
        for arguments, _ in every(location, "return"):
            content = arguments[1] if len(arguments) > 1 else ""
            if "$" in content or not re.fullmatch(r"[245]\d\d", arguments[0]):
                raise CannotTranslate(" ".join(["return", *arguments]))
            return [f"respond = {{ status = {arguments[0]}, body = {text(content)} }}"]
        target = self.inherited(location, "proxy_pass") if every(location, "proxy_pass") else None
        if target is None:
            return [f"files = {{ root = {text(self.prefix)} }}"]
        url = re.fullmatch(r"(https?)://(unix:[^:/$]*(?:/[^:$]*)?|[^/$]+?)(?::?(/[^$]*))?", target[0])
        if not url:
            raise CannotTranslate(f"proxy_pass {target[0]}")
        name = self.upstream(location, url[1], url[2])
        return [f"upstream = {text(name)}", *self.rewriting(location, url[3])]

    def routes(self, host):
        routes = []
        locations = every(self.server, "location") or [(["/"], [])]
        for arguments, location in locations:
            if arguments[0] == "=":
                condition = f"path_exact = {text(arguments[1])}"
            elif arguments[0].startswith("/"):
                condition = f"path = {text(arguments[0].rstrip('/') or '/')}"
            else:
                raise CannotTranslate(f"location {' '.join(arguments)}")
            try:
                action = self.action(location)
            except CannotTranslate as reason:
                content = text(f"cannot translate: {reason}\n")
                action = [f"respond = {{ status = 501, body = {content} }}"]
            conditions = [condition]
            if host:
                conditions.append(f"host = {text(host)}")
            routes.append(Route(conditions, action))
        return routes

    def settings(self, options):
        """Returns the lines of a listener."""
        lines = []
        for option in options:
            if option == "ssl":
                (chain,), (key,) = every(self.server, "ssl_certificate")[0][0], every(self.server, "ssl_certificate_key")[0][0]
                lines.append(f"tls = {{ certificates = [{{ chain = {text(chain)}, key = {text(key)} }}] }}")
            elif option == "proxy_protocol":
                lines.append("proxy_protocol = true")
            elif option == "http2":
                lines.append("http2 = true")
            elif option not in ("default_server", "default", "reuseport"):
                raise CannotTranslate(f"listen … {option}")
        if every(self.server, "http2") == [(["on"], None)]:
            lines.append("http2 = true")
        return lines


def translated(config, prefix):
    top = block(tokens(config))
    for name, arguments, _ in top:
        if name not in {"pid", "error_log", "daemon", "events", "http", "worker_processes"}:
            raise CannotTranslate(" ".join([name, *arguments]))
    http = every(top, "http")[0][1]
    known = {"server", "upstream", "proxy_read_timeout", "proxy_connect_timeout", "proxy_next_upstream"}
    listeners = {}
    sites = []
    for _, server in every(http, "server"):
        site = Site(http, server, prefix)
        site.check_known(http, known)
        site.check_known(server, known | {"listen", "location", "ssl_certificate", "ssl_certificate_key", "http2"})
        for (address, *options), _ in every(server, "listen"):
            sites.append((address, options, site))
    for address, options, site in sites:
        is_only = sum(1 for other, _, _ in sites if other == address) == 1
        names = every(site.server, "server_name")
        host = names[0][0][0] if names and not is_only else None
        listener = listeners.setdefault(address, Listener(address, site.settings(options)))
        listener.routes += site.routes(host)
        listener.upstreams.update(site.upstreams)
    return list(listeners.values())


def main():
    arguments = sys.argv[1:]
    if "-V" in arguments or "-v" in arguments:
        sys.stderr.write(VERSION)
        return 0
    prefix = arguments[arguments.index("-p") + 1]
    os.chdir(prefix)
    open("error.log", "a").close()
    with open("nginx.conf", encoding="utf-8") as file:
        config = file.read()
    try:
        listeners = translated(config, prefix.rstrip("/"))
    except CannotTranslate as reason:
        print(f"cannot translate: {reason}", file=sys.stderr)
        return 3

    def ready():
        with open("nginx.pid", "w", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")

    gateway.run(listeners, ready)


sys.exit(main())

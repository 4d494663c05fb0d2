"""Runs the programs of a trace, and checks their spans. The working directory gets the configs and the logs.
Arguments: the program `thruway`, and optionally the program `otelcol`. With it, a second run sends all spans through the
OpenTelemetry Collector."""

import contextlib
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).parent
LIMIT = 60


def free_addresses(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]


def python(file, *arguments):
    return [sys.executable, "-I", str(FOLDER / file), *arguments]


def start(name, command, is_ready):
    """Starts a program, and waits until `is_ready` returns a value for the output of the program."""
    log = pathlib.Path(f"{name}.log")
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    end = time.monotonic() + LIMIT
    while process.poll() is None and time.monotonic() < end:
        if ready := is_ready(log.read_text()):
            return process, ready
        time.sleep(0.05)
    sys.exit(f"{name} did not start:\n{log.read_text()}")


def at(address):
    """Returns a function that checks if a program listens at this address."""
    host, port = address.split(":")

    def listens(_):
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
            return address

    return listens


def with_values(file, values):
    """Writes a copy of a file with these values in place of its placeholders."""
    text = re.sub(r"\{([a-z_]+)\}", lambda found: values[found[1]], (FOLDER / file).read_text())
    pathlib.Path(file).write_text(text)
    return file


def gateway(program, name, values):
    """Starts `thruway serve`. Returns the process and its address."""
    printed = r"(?m)^listening on http://(\S+)\n"
    config = with_values(f"{name}.toml", values)
    process, found = start(name, [program, "serve", config], lambda log: re.search(printed, log))
    return process, found[1]


def end(process, name):
    process.send_signal(signal.SIGTERM)
    if status := process.wait(LIMIT):
        sys.exit(f"{name} ended with status {status}:\n{pathlib.Path(f'{name}.log').read_text()}")


def port_of(address):
    return address.split(":")[1]


def run(program, otelcol=None):
    collector, grpc, server, otelcol_http, otelcol_grpc = free_addresses(5)
    running = [start("collector", python("collector.py", port_of(collector), port_of(grpc)), at(collector))[0]]
    values = {"collector": collector, "otelcol_http": otelcol_http, "otelcol_grpc": otelcol_grpc}
    http, grpc = f"http://{collector}", f"grpc://{grpc}"
    if otelcol:
        config = f'--config={with_values("otelcol.yaml", values)}'
        relay, _ = start("otelcol", [otelcol, config], at(otelcol_http))
        http, grpc = f"http://{otelcol_http}", f"grpc://{otelcol_grpc}"
    of_server = python("programs.py", "server", port_of(server), grpc, "server-http")
    running.append(start("server", of_server, at(server))[0])
    values |= {"http": http, "grpc": grpc, "server": server, "python": sys.executable, "programs": str(FOLDER / "programs.py")}
    federation, values["federation"] = gateway(program, "federation", values)
    edge, address = gateway(program, "edge", values)
    client = python("programs.py", "client", f"http://{address}/mcp", http, "client")
    traces = subprocess.run(client, check=True, stdout=subprocess.PIPE, text=True, timeout=LIMIT).stdout.split()
    # The gateways and the Collector send the remaining spans before they end.
    end(edge, "edge")
    end(federation, "federation")
    if otelcol:
        end(relay, "otelcol")
    check = python("check.py", f"http://{collector}", "relayed" if otelcol else "direct", *traces)
    result = subprocess.run(check, check=True, stdout=subprocess.PIPE, text=True, timeout=LIMIT).stdout.strip()
    for process in running:
        process.kill()
        process.wait()
    return result


program, *otelcol = sys.argv[1:]
results = [run(program), *(f"{run(program, each)} through the Collector" for each in otelcol)]
print("; ".join(results), end="")

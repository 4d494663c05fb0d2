"""Runs an outside suite against Thruway: `suites.py haproxy|nginx CHECKOUT`, with `PROGRAM` as the path of `thruway`.

Prints a line of JSON for each test: its name, its result, and the cause of a failure. Adapts copies of the test files in a
temporary directory. It does not change the checkout.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_SECONDS = 60


def report(name, passed, cause=""):
    print(json.dumps({"name": name, "passed": passed, "cause": cause}), flush=True)


def stand_in(directory, program):
    """Writes an executable that runs the translation `program`.py, and returns its path."""
    path = os.path.join(directory, program)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec python3 "{HERE}/{program}.py" "$@"\n')
    os.chmod(path, 0o755)
    return path


def run(command, directory, **environment):
    """Returns the exit status of a command and the lines that it printed."""
    try:
        done = subprocess.run(
            command, cwd=directory, env=os.environ | environment, timeout=LIMIT_SECONDS, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
    except subprocess.TimeoutExpired:
        return None, [f"did not end within {LIMIT_SECONDS} s"]
    return done.returncode, done.stdout.decode(errors="replace").splitlines()


def cause_in(lines, pattern):
    return next((match[1].strip() for match in map(re.compile(pattern).search, lines) if match), "")


# ---------------------------------------------------------------------------------------------------------------- HAProxy

WAIT = """shell {{
    n=0
    until [ -e ${{tmpdir}}/{name}/ready ]; do
        n=$((n + 1)); [ $n -lt 200 ] || exit 1; sleep 0.05
    done
}}
"""


def adapted_scenario(lines):
    """Adapts a scenario: it waits until Thruway listens, skips the statistics socket, and adds authorities to HTTP/2 requests.

    HAProxy accepts HTTP/2 requests without an authority. Thruway rejects these requests, so the remainder of the test would
    not run.
    """
    adapted, name, is_skipped, depth = [], None, False, 0
    for number, line in enumerate(lines):
        if re.match(r"haproxy \S+ -cli \{", line):
            is_skipped = True
        if is_skipped:
            is_skipped = not line.startswith("}")
            continue
        adapted.append(line)
        if re.match(r"\s*stream \d+ \{", line):
            depth = 1
        elif depth and re.match(r"\s*\} -run", line):
            depth = 0
        if depth and re.match(r"\s*txreq \\$", line):
            request = []
            for rest in lines[number + 1:]:
                request.append(rest)
                if not rest.endswith("\\\n"):
                    break
            if ":authority" not in "".join(request):
                adapted.append('\t\t  -hdr ":authority" "hostname" \\\n')
        if match := re.match(r"haproxy (\S+) .*-conf \{", line):
            name = match[1]
        if name and re.match(r"\}.*-start", line):
            adapted.append(WAIT.format(name=name))
            name = None
    return adapted


def haproxy(checkout, directory):
    scenarios = os.path.join(checkout, "reg-tests", "http-messaging")
    program = stand_in(directory, "haproxy")
    certificates = os.path.join(scenarios, "certs")
    if os.path.isdir(certificates):
        shutil.copytree(certificates, os.path.join(directory, "certs"))
    for path in sorted(glob.glob(os.path.join(scenarios, "*.vtc"))):
        name = os.path.basename(path)
        with open(path, encoding="utf-8") as file:
            adapted = adapted_scenario(file.readlines())
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.writelines(adapted)
        status, printed = run(
            ["varnishtest", "-k", "-t", "20", name], directory, HAPROXY_PROGRAM=program, TMPDIR=directory
        )
        cause = cause_in(printed, r"(cannot translate: .*)") or cause_in(printed, r"^---- (.*)")
        # Exit status 77 means that varnishtest skipped the scenario.
        report(name, status == 0, cause or f"exit status {status}")


# ------------------------------------------------------------------------------------------------------------------ nginx

MESSAGE = re.compile(r"(HTTP/1\.\d \d\d\d|[A-Z]+ \S+ HTTP/1\.\d)")
HERE_DOCUMENT = re.compile(r"<<\s*(['\"]?)([A-Z]+)\1")


def with_line_ends(source):
    """Ends the header lines of HTTP messages in here-documents with CRLF, as RFC 9112 requires.

    The tests end many lines with a bare LF, which nginx accepts and Thruway rejects. Perl drops a CR in its source, so the
    lines get an escape sequence. Literal documents become documents with escapes.
    """
    lines = source.split("\n")
    adapted = []
    while lines:
        line = lines.pop(0)
        opening = HERE_DOCUMENT.search(line)
        if opening and opening[2] in lines and MESSAGE.match(lines[0]):
            end = lines.index(opening[2])
            document, lines = lines[:end], lines[end:]
            line = line[:opening.start()] + f'<<"{opening[2]}"' + line[opening.end():]
            adapted += [line, *message_lines(document, is_literal=opening[1] == "'")]
        else:
            adapted.append(line)
    return "\n".join(adapted)


def message_lines(document, is_literal):
    if is_literal:
        document = [re.sub(r"([\\$@])", r"\\\1", line) for line in document]
    head = document.index("") + 1 if "" in document else len(document)
    ended = [line if line.endswith(("\r", "\\r")) else line + "\\r" for line in document[:head]]
    return ended + document[head:]


def adapt_tests(checkout, directory):
    shutil.copytree(os.path.join(checkout, "lib"), os.path.join(directory, "lib"))
    tests = sorted(glob.glob(os.path.join(checkout, "proxy*.t")))
    files = [*tests, *glob.glob(os.path.join(directory, "lib", "Test", "*.pm"))]
    for path in files:
        with open(path, encoding="latin-1", newline="") as file:
            source = file.read()
        target = path if path.startswith(directory) else os.path.join(directory, os.path.basename(path))
        with open(target, "w", encoding="latin-1", newline="") as file:
            file.write(with_line_ends(source))
    return [os.path.basename(path) for path in tests]


def nginx(checkout, directory):
    program = stand_in(directory, "nginx")
    for name in adapt_tests(checkout, directory):
        status, printed = run(
            ["perl", name], directory, TEST_NGINX_BINARY=program, TMPDIR=directory, PERL5LIB=os.path.join(directory, "lib")
        )
        if any(line.startswith("1..0") for line in printed):
            report(name, False, cause_in(printed, r"# SKIP (.*)"))
            continue
        seen = False
        for line in printed:
            match = re.match(r"(not )?ok \d+ - (.*?)( # ([A-Z]{4}|skip).*)?$", line)
            # Each file ends with two tests about the error log of nginx.
            if match and match[2] not in ("no alerts", "no sanitizer errors") and not match[3]:
                seen = True
                report(f"{name}: {match[2]}", match[1] is None, "")
        if not seen or status is None or status > 254 or any("Looks like your test exited" in line for line in printed):
            cause = cause_in(printed, r"(cannot translate: .*)") or cause_in(printed, r"(thruway does not start: .*)")
            report(name, False, cause or (printed[-1] if printed else f"exit status {status}"))


def main():
    suite, checkout = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="thruway-outside-") as directory:
        {"haproxy": haproxy, "nginx": nginx}[suite](os.path.abspath(checkout), directory)


main()

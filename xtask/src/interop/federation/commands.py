"""Runs a command for each call without elicitation. The command gets the name of the tool after the option
`--tool-name`, and each argument after the option `--tool-arg`. Arguments: file with the calls, COMMAND…"""

import json
import subprocess
import sys


def main():
    file, *command = sys.argv[1:]
    with open(file) as opened:
        calls = [call for call in json.load(opened) if not call.get("elicits")]
    for call in calls:
        options = ["--tool-name", call["tool"]]
        for name, value in call["arguments"].items():
            options += ["--tool-arg", f"{name}={value}"]
        ended = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        # The output is JSON, so quotation marks in it have a backslash.
        expected = json.dumps(call["expected"])[1:-1]
        assert ended.returncode == 0 and expected in ended.stdout, (call, ended)
    print(f"{len(calls)} calls")


main()

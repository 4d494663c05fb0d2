"""gRPC server (`serve [CERTIFICATE KEY]`) and client (`URL [ROOT]`)."""
import queue
import sys
import threading
import time
from concurrent import futures

import grpc

# The tests send messages that exceed the default limits.
OPTIONS = [("grpc.max_receive_message_length", 32 << 20), ("grpc.max_send_message_length", 32 << 20)]


class Cancelled:
    """Counts the calls of `Wait` that ended before their response."""

    def __init__(self):
        self.count = 0
        self.lock = threading.Lock()

    def add(self):
        with self.lock:
            self.count += 1


cancelled = Cancelled()


def unary(request, context):
    if request == b"refuse":
        # No message precedes the error, so the response has only trailers.
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "not \N{SNOWMAN} for you: 100%")
    context.send_initial_metadata((("x-initial", "1"), ("x-bytes-bin", b"\x00\xff")))
    context.set_trailing_metadata((("x-trailing", "2"), ("x-bytes-bin", b"\xff\x00")))
    if request == b"fail":
        context.abort(grpc.StatusCode.NOT_FOUND, "it is not there")
    return b"said " + request


def wait(request, context):
    ended = threading.Event()
    if not context.add_callback(ended.set):
        ended.set()
    ended.wait(20)
    cancelled.add()
    return b""


def time_left(request, context):
    left = context.time_remaining()
    return b"none" if left is None or left > 1e6 else str(int(left * 1000)).encode()


def server_stream(request, context):
    for number in range(int(request)):
        yield str(number).encode() * 1000


def client_stream(requests, context):
    return str(sum(len(request) for request in requests)).encode()


def both(requests, context):
    for request in requests:
        yield request


def serve(files):
    server = grpc.server(futures.ThreadPoolExecutor(16), options=OPTIONS)
    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Wait": grpc.unary_unary_rpc_method_handler(wait),
        "Cancelled": grpc.unary_unary_rpc_method_handler(lambda *_: str(cancelled.count).encode()),
        "TimeLeft": grpc.unary_unary_rpc_method_handler(time_left),
        "ServerStream": grpc.unary_stream_rpc_method_handler(server_stream),
        "ClientStream": grpc.stream_unary_rpc_method_handler(client_stream),
        "Both": grpc.stream_stream_rpc_method_handler(both),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", handlers),))
    if files:
        certificate, key = (open(file, "rb").read() for file in files)
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)]))
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"listening on {'https' if files else 'http'}://127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


def failed_call(call, code, details=None, or_code=None):
    """Returns the error of a call. Its status must be `code` or `or_code`."""
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() in (code, or_code), error
        assert details is None or error.details() == details, error
        return error
    raise AssertionError(f"the call did not fail with {code}")


def check_unary(channel):
    unary = channel.unary_unary("/test.Echo/Unary")
    said, call = unary.with_call(b"hello", timeout=10)
    assert said == b"said hello", said
    initial, trailing = dict(call.initial_metadata()), dict(call.trailing_metadata())
    assert initial["x-initial"] == "1" and initial["x-bytes-bin"] == b"\x00\xff", initial
    assert trailing["x-trailing"] == "2" and trailing["x-bytes-bin"] == b"\xff\x00", trailing
    failed = failed_call(lambda: unary(b"fail", timeout=10), grpc.StatusCode.NOT_FOUND, "it is not there")
    assert dict(failed.trailing_metadata())["x-trailing"] == "2"
    denied = "not \N{SNOWMAN} for you: 100%"
    failed_call(lambda: unary(b"refuse", timeout=10), grpc.StatusCode.PERMISSION_DENIED, denied)
    nothing = channel.unary_unary("/test.Echo/Nothing")
    failed_call(lambda: nothing(b"", timeout=10), grpc.StatusCode.UNIMPLEMENTED)
    large = bytes(range(256)) * (8 << 12)
    assert unary(large, timeout=30) == b"said " + large
    calls = [unary.future(str(number).encode(), timeout=20) for number in range(200)]
    assert all(call.result() == b"said " + str(number).encode() for number, call in enumerate(calls))


def check_streams(channel):
    streamed = list(channel.unary_stream("/test.Echo/ServerStream")(b"100", timeout=10))
    assert len(streamed) == 100 and streamed[99] == b"99" * 1000
    large = [b"x" * 100_000] * 50
    assert channel.stream_unary("/test.Echo/ClientStream")(iter(large), timeout=10) == b"5000000"
    to_send = queue.Queue()
    to_send.put(b"0")
    received = []
    for message in channel.stream_stream("/test.Echo/Both")(iter(to_send.get, None), timeout=10):
        received.append(message)
        # The client sends the next message after it has received the previous one.
        to_send.put(str(len(received)).encode() if len(received) < 20 else None)
    assert received == [str(number).encode() for number in range(20)], received


def check_cancellation(channel):
    wait = channel.unary_unary("/test.Echo/Wait")
    count = channel.unary_unary("/test.Echo/Cancelled")
    before = int(count(b"", timeout=10))
    assert 0 < int(channel.unary_unary("/test.Echo/TimeLeft")(b"", timeout=10)) <= 11_000
    # The client and the server both end the call at the deadline. If a Go server ends the call first, the server resets
    # the stream, and the gateway responds with 502.
    started = time.monotonic()
    failed_call(lambda: wait(b"", timeout=0.3), grpc.StatusCode.DEADLINE_EXCEEDED, or_code=grpc.StatusCode.UNAVAILABLE)
    assert time.monotonic() - started > 0.25
    call = wait.future(b"", timeout=15)
    call.cancel()
    assert call.cancelled()
    stream = channel.stream_stream("/test.Echo/Both")(iter(queue.Queue().get, None), timeout=15)
    stream.cancel()
    failed_call(lambda: list(stream), grpc.StatusCode.CANCELLED)
    end = time.monotonic() + 10
    # The call with the deadline counts. The cancelled call may not have reached the server.
    while int(count(b"", timeout=10)) == before:
        assert time.monotonic() < end, "the server did not notice that the call ended"
        time.sleep(0.02)


def ask(url, roots):
    address = url.partition("://")[2]
    if url.startswith("https://"):
        trusted = grpc.ssl_channel_credentials(open(roots[0], "rb").read())
        channel = grpc.secure_channel(address, trusted, options=OPTIONS)
    else:
        channel = grpc.insecure_channel(address, options=OPTIONS)
    with channel:
        check_unary(channel)
        check_streams(channel)
        check_cancellation(channel)
    print("calls, streams both ways, errors, deadlines, cancellation, 8 MiB, 200 at a time")


serve(sys.argv[2:]) if sys.argv[1] == "serve" else ask(sys.argv[1], sys.argv[2:])

"""gRPC both ways through a gateway: a server, and a client that asks it by way of another address."""
import queue
import sys
from concurrent import futures

import grpc


def unary(request, context):
    context.send_initial_metadata((("x-initial", "1"),))
    context.set_trailing_metadata((("x-trailing", "2"),))
    if request == b"fail":
        context.abort(grpc.StatusCode.NOT_FOUND, "it is not there")
    return b"said " + request


def server_stream(request, context):
    for number in range(int(request)):
        yield str(number).encode() * 1000


def client_stream(requests, context):
    return str(sum(len(request) for request in requests)).encode()


def both(requests, context):
    for request in requests:
        yield request


def serve():
    server = grpc.server(futures.ThreadPoolExecutor(8))
    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "ServerStream": grpc.unary_stream_rpc_method_handler(server_stream),
        "ClientStream": grpc.stream_unary_rpc_method_handler(client_stream),
        "Both": grpc.stream_stream_rpc_method_handler(both),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"listening on http://127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


def ask(address):
    with grpc.insecure_channel(address.removeprefix("http://")) as channel:
        unary = channel.unary_unary("/test.Echo/Unary")
        said, call = unary.with_call(b"hello", timeout=5)
        assert said == b"said hello", said
        assert ("x-initial", "1") in call.initial_metadata(), call.initial_metadata()
        assert ("x-trailing", "2") in call.trailing_metadata(), call.trailing_metadata()
        try:
            unary(b"fail", timeout=5)
            raise AssertionError("it should have failed")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.NOT_FOUND, error
            assert error.details() == "it is not there", error
        try:
            channel.unary_unary("/test.Echo/Nothing")(b"", timeout=5)
            raise AssertionError("it should have failed")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error
        streamed = list(channel.unary_stream("/test.Echo/ServerStream")(b"100", timeout=5))
        assert len(streamed) == 100 and streamed[99] == b"99" * 1000
        large = [b"x" * 100_000] * 50
        assert channel.stream_unary("/test.Echo/ClientStream")(iter(large), timeout=10) == b"5000000"
        to_say = queue.Queue()
        to_say.put(b"0")
        heard = []
        for message in channel.stream_stream("/test.Echo/Both")(iter(to_say.get, None), timeout=10):
            heard.append(message)
            # The next is said when the one before was heard.
            to_say.put(str(len(heard)).encode() if len(heard) < 20 else None)
        assert heard == [str(number).encode() for number in range(20)], heard
        calls = [unary.future(str(number).encode(), timeout=10) for number in range(200)]
        assert all(call.result() == b"said " + str(number).encode() for number, call in enumerate(calls))
    print("unary, both streams, both at once, errors and 200 calls at a time")


serve() if sys.argv[1] == "serve" else ask(sys.argv[1])

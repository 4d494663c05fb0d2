// gRPC server (`serve [CERTIFICATE KEY]`) and client (`URL [ROOT]`).
// Messages are plain bytes, so that no code must be generated.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// The tests send messages that exceed the default limits.
const messageBytes = 32 << 20

const denied = "not \u2603 for you: 100%"

// rawCodec uses each message as a slice of bytes.
type rawCodec struct{}

func (rawCodec) Marshal(value any) ([]byte, error) { return *value.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, value any) error {
	*value.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (rawCodec) Name() string { return "proto" }

// cancelled counts the calls of `Wait` that ended before their response.
var cancelled atomic.Int64

func unary(ctx context.Context, request []byte) ([]byte, error) {
	if string(request) == "refuse" {
		// No message precedes the error, so the response has only trailers.
		return nil, status.Error(codes.PermissionDenied, denied)
	}
	grpc.SendHeader(ctx, metadata.Pairs("x-initial", "1", "x-bytes-bin", "\x00\xff"))
	grpc.SetTrailer(ctx, metadata.Pairs("x-trailing", "2", "x-bytes-bin", "\xff\x00"))
	if string(request) == "fail" {
		return nil, status.Error(codes.NotFound, "it is not there")
	}
	return append([]byte("said "), request...), nil
}

func wait(ctx context.Context, _ []byte) ([]byte, error) {
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Second):
	}
	cancelled.Add(1)
	return nil, ctx.Err()
}

func timeLeft(ctx context.Context, _ []byte) ([]byte, error) {
	deadline, has := ctx.Deadline()
	if !has {
		return []byte("none"), nil
	}
	return []byte(strconv.FormatInt(time.Until(deadline).Milliseconds(), 10)), nil
}

func count(context.Context, []byte) ([]byte, error) {
	return []byte(strconv.FormatInt(cancelled.Load(), 10)), nil
}

func serverStream(stream grpc.ServerStream) error {
	var request []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	count, err := strconv.Atoi(string(request))
	for number := 0; number < count && err == nil; number++ {
		message := bytes.Repeat([]byte(strconv.Itoa(number)), 1000)
		err = stream.SendMsg(&message)
	}
	return err
}

func clientStream(stream grpc.ServerStream) error {
	total := 0
	for {
		var request []byte
		if err := stream.RecvMsg(&request); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		total += len(request)
	}
	answer := []byte(strconv.Itoa(total))
	return stream.SendMsg(&answer)
}

func both(stream grpc.ServerStream) error {
	for {
		var request []byte
		if err := stream.RecvMsg(&request); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(&request); err != nil {
			return err
		}
	}
}

func method(name string, answer func(context.Context, []byte) ([]byte, error)) grpc.MethodDesc {
	handler := func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var request []byte
		if err := decode(&request); err != nil {
			return nil, err
		}
		response, err := answer(ctx, request)
		return &response, err
	}
	return grpc.MethodDesc{MethodName: name, Handler: handler}
}

func stream(name string, fromClient, fromServer bool, answer func(grpc.ServerStream) error) grpc.StreamDesc {
	handler := func(_ any, stream grpc.ServerStream) error { return answer(stream) }
	return grpc.StreamDesc{StreamName: name, Handler: handler, ClientStreams: fromClient, ServerStreams: fromServer}
}

func serve(files []string) {
	options := []grpc.ServerOption{grpc.ForceServerCodec(rawCodec{}), grpc.MaxRecvMsgSize(messageBytes)}
	scheme := "http"
	if len(files) == 2 {
		secured, err := credentials.NewServerTLSFromFile(files[0], files[1])
		must(err)
		options = append(options, grpc.Creds(secured))
		scheme = "https"
	}
	server := grpc.NewServer(options...)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Echo",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			method("Unary", unary), method("Wait", wait), method("TimeLeft", timeLeft), method("Cancelled", count),
		},
		Streams: []grpc.StreamDesc{
			stream("ServerStream", false, true, serverStream),
			stream("ClientStream", true, false, clientStream),
			stream("Both", true, true, both),
		},
	}, struct{}{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	fmt.Printf("listening on %s://%s\n", scheme, listener.Addr())
	must(server.Serve(listener))
}

// client is a client of the service.
type client struct{ *grpc.ClientConn }

func (client client) call(name string, request []byte, within time.Duration, options ...grpc.CallOption) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var response []byte
	err := client.Invoke(ctx, "/test.Echo/"+name, &request, &response, options...)
	return response, err
}

func (client client) number(name string) int {
	response, err := client.call(name, nil, 10*time.Second)
	must(err)
	number, err := strconv.Atoi(string(response))
	must(err)
	return number
}

func (client client) open(ctx context.Context, name string) grpc.ClientStream {
	desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	stream, err := client.NewStream(ctx, desc, "/test.Echo/"+name)
	must(err)
	return stream
}

func (client client) once() {
	var initial, trailing metadata.MD
	said, err := client.call("Unary", []byte("hello"), 10*time.Second, grpc.Header(&initial), grpc.Trailer(&trailing))
	must(err)
	expect("the answer", string(said), "said hello")
	expect("initial metadata", fmt.Sprintf("%q%q", initial["x-initial"], initial["x-bytes-bin"]), `["1"]["\x00\xff"]`)
	expect("trailing metadata", fmt.Sprintf("%q%q", trailing["x-trailing"], trailing["x-bytes-bin"]), `["2"]["\xff\x00"]`)
	_, err = client.call("Unary", []byte("fail"), 10*time.Second, grpc.Trailer(&trailing))
	expect("the error", err.Error(), status.Error(codes.NotFound, "it is not there").Error())
	expect("its metadata", fmt.Sprint(trailing["x-trailing"]), "[2]")
	_, err = client.call("Unary", []byte("refuse"), 10*time.Second)
	expect("the rejected call", err.Error(), status.Error(codes.PermissionDenied, denied).Error())
	_, err = client.call("Nothing", nil, 10*time.Second)
	expect("no such method", status.Code(err), codes.Unimplemented)
	large := bytes.Repeat([]byte("0123456789abcdef"), 8<<16)
	said, err = client.call("Unary", large, 30*time.Second)
	must(err)
	expect("a large message", bytes.Equal(said[5:], large), true)
	answers := make(chan string)
	for number := range 200 {
		go func() {
			said, err := client.call("Unary", []byte(strconv.Itoa(number)), 20*time.Second)
			answers <- fmt.Sprint(string(said) == fmt.Sprint("said ", number), err)
		}()
	}
	for range 200 {
		expect("one of many", <-answers, "true <nil>")
	}
}

func (client client) streams() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	streamed := client.open(ctx, "ServerStream")
	hundred := []byte("100")
	must(streamed.SendMsg(&hundred))
	must(streamed.CloseSend())
	var message []byte
	for number := range 100 {
		must(streamed.RecvMsg(&message))
		expect("a message", string(message), strings.Repeat(strconv.Itoa(number), 1000))
	}
	expect("the end", streamed.RecvMsg(&message), io.EOF)
	sent := client.open(ctx, "ClientStream")
	large := bytes.Repeat([]byte("x"), 100_000)
	for range 50 {
		must(sent.SendMsg(&large))
	}
	must(sent.CloseSend())
	must(sent.RecvMsg(&message))
	expect("the sum", string(message), "5000000")
	talk := client.open(ctx, "Both")
	for number := range 20 {
		said := []byte(strconv.Itoa(number))
		must(talk.SendMsg(&said))
		must(talk.RecvMsg(&message))
		expect("the echo", string(message), string(said))
	}
	must(talk.CloseSend())
	expect("the end", talk.RecvMsg(&message), io.EOF)
}

func (client client) checkCancellation() {
	before := client.number("Cancelled")
	left := client.number("TimeLeft")
	expect("the server got the deadline", left > 0 && left <= 11_000, true)
	started := time.Now()
	_, err := client.call("Wait", nil, 300*time.Millisecond)
	// The client and the server both end the call at the deadline. If a Go server ends the call first, the server
	// resets the stream, and the gateway responds with 502.
	if code := status.Code(err); code != codes.Unavailable {
		expect("too late", code, codes.DeadlineExceeded)
	}
	expect("not before the deadline", time.Since(started) > 250*time.Millisecond, true)
	ctx, cancel := context.WithCancel(context.Background())
	talk := client.open(ctx, "Both")
	said := []byte("there")
	must(talk.SendMsg(&said))
	must(talk.RecvMsg(&said))
	cancel()
	expect("cancelled", status.Code(talk.RecvMsg(&said)), codes.Canceled)
	for end := time.Now().Add(10 * time.Second); client.number("Cancelled") == before; time.Sleep(20 * time.Millisecond) {
		expect("the server noticed that the call ended", time.Now().Before(end), true)
	}
}

func ask(url string, roots []string) {
	scheme, address, _ := strings.Cut(url, "://")
	secured := insecure.NewCredentials()
	if scheme == "https" {
		var err error
		secured, err = credentials.NewClientTLSFromFile(roots[0], "")
		must(err)
	}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(secured), grpc.WithDefaultCallOptions(
		grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(messageBytes)))
	must(err)
	defer connection.Close()
	client := client{connection}
	client.once()
	client.streams()
	client.checkCancellation()
	fmt.Println("calls, streams both ways, errors, deadlines, cancellation, 8 MiB, 200 at a time")
}

func expect[T comparable](what string, seen, expected T) {
	if seen != expected {
		panic(fmt.Sprintf("%s: %v instead of %v", what, seen, expected))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	if os.Args[1] == "serve" {
		serve(os.Args[2:])
	} else {
		ask(os.Args[1], os.Args[2:])
	}
}

// fasthttp on one processor.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net"
	"runtime"

	"github.com/valyala/fasthttp"
)

type greeting struct {
	Message string `json:"message"`
}

var plaintext = []byte("Hello, World!")

func main() {
	address := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	server := &fasthttp.Server{
		Name:    "fasthttp",
		Handler: handle,
		// As in fasthttp's own benchmarks: responses need neither feature.
		NoDefaultContentType: true,
		ReduceMemoryUsage:    false,
	}
	log.Fatal(server.Serve(listener))
}

func handle(context *fasthttp.RequestCtx) {
	switch string(context.Path()) {
	case "/plaintext":
		context.SetContentType("text/plain")
		context.SetBody(plaintext)
	case "/json":
		context.SetContentType("application/json")
		if err := json.NewEncoder(context).Encode(greeting{"Hello, World!"}); err != nil {
			context.Error(err.Error(), fasthttp.StatusInternalServerError)
		}
	case "/echo":
		context.SetContentType("text/plain")
		context.SetBody(context.PostBody())
	default:
		context.SetStatusCode(fasthttp.StatusNotFound)
	}
}

// Package contract contains the arguments, tools and results that the MCP servers share.
package contract

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
)

// Options holds the command-line options of a server.
type Options struct {
	Address string
	Stdio   bool
	Tools   int
}

// Echo holds the arguments of the tool `echo`.
type Echo struct {
	Message string `json:"message"`
}

// Echoed is the result of the tool `echo`.
type Echoed struct {
	Echo   string `json:"echo"`
	Length int    `json:"length"`
}

// Add holds the arguments of the tool `add`.
type Add struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

// Sum is the result of the tool `add`.
type Sum struct {
	Sum float64 `json:"sum"`
}

// Start parses the arguments and limits the process to one processor.
func Start() Options {
	var options Options
	flag.StringVar(&options.Address, "listen", "127.0.0.1:8080", "address to listen on")
	flag.BoolVar(&options.Stdio, "stdio", false, "serve the standard input and output instead")
	flag.IntVar(&options.Tools, "tools", 2, "number of tools")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	// With the default and such a small live heap, the garbage collector would run thousands of times per second.
	debug.SetGCPercent(400)
	return options
}

// Serve serves HTTP requests to /mcp until an error. Connections have TCP_NODELAY, which is the default in Go.
func Serve(address string, handler http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	return http.Serve(listener, mux)
}

// ToolName returns the name of tool number n, which does nothing.
func ToolName(n int) string {
	return fmt.Sprintf("tool_%03d", n)
}

// EchoTool runs the tool `echo`.
func EchoTool(arguments Echo) any {
	return Echoed{Echo: arguments.Message, Length: len(arguments.Message)}
}

// AddTool runs the tool `add`.
func AddTool(arguments Add) any {
	return Sum{Sum: arguments.A + arguments.B}
}

// JSON serializes a result. The servers send it as text and as structured content.
func JSON(result any) (json.RawMessage, error) {
	return json.Marshal(result)
}

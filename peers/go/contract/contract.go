// Package contract holds what the servers of MCP have in common: arguments, tools and their results.
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

// Options are the arguments of a server.
type Options struct {
	Address string
	Stdio   bool
	Tools   int
}

// Echo holds the arguments of the tool `echo`.
type Echo struct {
	Message string `json:"message"`
}

// Echoed is its result.
type Echoed struct {
	Echo   string `json:"echo"`
	Length int    `json:"length"`
}

// Add holds the arguments of the tool `add`.
type Add struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

// Sum is its result.
type Sum struct {
	Sum float64 `json:"sum"`
}

// Start reads the arguments and leaves the process one processor.
func Start() Options {
	var options Options
	flag.StringVar(&options.Address, "listen", "127.0.0.1:8080", "address to listen on")
	flag.BoolVar(&options.Stdio, "stdio", false, "serve the standard input and output instead")
	flag.IntVar(&options.Tools, "tools", 2, "how many tools there are")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	// The live heap is so small that the default would collect thousands of times a second.
	debug.SetGCPercent(400)
	return options
}

// Serve answers HTTP requests to /mcp until that fails. Connections have TCP_NODELAY, as Go sets it by itself.
func Serve(address string, handler http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	return http.Serve(listener, mux)
}

// ToolName is the name of a tool that does nothing but stand in the list.
func ToolName(n int) string {
	return fmt.Sprintf("tool_%03d", n)
}

// EchoTool does what the tool `echo` does.
func EchoTool(arguments Echo) any {
	return Echoed{Echo: arguments.Message, Length: len(arguments.Message)}
}

// AddTool does what the tool `add` does.
func AddTool(arguments Add) any {
	return Sum{Sum: arguments.A + arguments.B}
}

// JSON is a result as bytes, to be serialised once for both forms in which it is sent.
func JSON(result any) (json.RawMessage, error) {
	return json.Marshal(result)
}

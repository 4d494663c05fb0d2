// The official Go SDK of MCP on one processor: no sessions and JSON responses. Handlers read their arguments themselves,
// without checks against schemas.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"thruway.example/bench/contract"
)

func main() {
	options := contract.Start()
	server := newServer(options.Tools)
	if options.Stdio {
		if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			log.Fatal(err)
		}
		return
	}
	handler := mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true},
	)
	log.Fatal(contract.Serve(options.Address, handler))
}

func newServer(tools int) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1.0"}, nil)
	add(server, "echo", "Sends a message back", contract.EchoTool)
	add(server, "add", "Adds two numbers", contract.AddTool)
	for n := 2; n < tools; n++ {
		add(server, contract.ToolName(n), "Does nothing", func(contract.Echo) any { return struct{}{} })
	}
	return server
}

func add[Arguments any](server *mcp.Server, name, description string, call func(Arguments) any) {
	schema, err := jsonschema.For[Arguments](nil)
	if err != nil {
		log.Fatal(err)
	}
	tool := &mcp.Tool{Name: name, Description: description, InputSchema: schema}
	server.AddTool(tool, func(_ context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var arguments Arguments
		if err := json.Unmarshal(request.Params.Arguments, &arguments); err != nil {
			return nil, err
		}
		result, err := contract.JSON(call(arguments))
		if err != nil {
			return nil, err
		}
		content := []mcp.Content{&mcp.TextContent{Text: string(result)}}
		return &mcp.CallToolResult{Content: content, StructuredContent: result}, nil
	})
}

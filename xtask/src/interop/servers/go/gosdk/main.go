// A server of the official Go SDK, on stdio, or over HTTP with `--listen ADDRESS`.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type addends struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

func main() {
	address := flag.String("listen", "", "address to listen on")
	flag.Parse()
	server := mcp.NewServer(&mcp.Implementation{Name: "go-sdk", Version: "1.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "add", Description: "Adds two numbers"}, add)
	mcp.AddTool(server, &mcp.Tool{Name: "ask", Description: "Asks who you are"}, ask)
	if *address == "" {
		log.Fatal(server.Run(context.Background(), &mcp.StdioTransport{}))
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	http.Handle("/mcp", handler)
	log.Fatal(http.ListenAndServe(*address, nil))
}

func add(_ context.Context, _ *mcp.CallToolRequest, addends addends) (*mcp.CallToolResult, any, error) {
	return text(fmt.Sprint(addends.A + addends.B)), nil, nil
}

// In the legacy era, the SDK sends the elicitation request itself, and calls this function again with the answer.
func ask(_ context.Context, request *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	answer, isAnswered := request.Params.InputResponses["name"].(*mcp.ElicitResult)
	if isAnswered {
		return text(fmt.Sprintf("Hello, %v!", answer.Content["name"])), nil, nil
	}
	question := &mcp.ElicitParams{
		Message: "What is your name?",
		RequestedSchema: &jsonschema.Schema{
			Type:       "object",
			Properties: map[string]*jsonschema.Schema{"name": {Type: "string"}},
		},
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"name": question}}, nil, nil
}

func text(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

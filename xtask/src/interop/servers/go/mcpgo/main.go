// A server of mcp-go, on stdio, or over HTTP with `--listen ADDRESS`.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	address := flag.String("listen", "", "address to listen on")
	flag.Parse()
	tools := server.NewMCPServer("mcp-go", "1.0", server.WithToolCapabilities(false), server.WithElicitation())
	a, b := mcp.WithNumber("a", mcp.Required()), mcp.WithNumber("b", mcp.Required())
	tools.AddTool(mcp.NewTool("add", mcp.WithDescription("Adds two numbers"), a, b), add)
	tools.AddTool(mcp.NewTool("ask", mcp.WithDescription("Asks who you are")), ask)
	if *address == "" {
		log.Fatal(server.ServeStdio(tools))
	}
	log.Fatal(server.NewStreamableHTTPServer(tools).Start(*address))
}

func add(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText(fmt.Sprint(request.GetFloat("a", 0) + request.GetFloat("b", 0))), nil
}

// In the legacy era, the library sends the elicitation request itself, and calls this function again with the answer.
func ask(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answer := server.ElicitationResponse(request.Params.InputResponses, "name")
	if answer == nil {
		return server.NewInputRequestBuilder("").Elicit("name", mcp.ElicitationParams{
			Message: "What is your name?",
			RequestedSchema: map[string]any{
				"type":       "object",
				"properties": map[string]any{"name": map[string]any{"type": "string"}},
			},
		}).ToolResult(), nil
	}
	content, _ := answer.Content.(map[string]any)
	return mcp.NewToolResultText(fmt.Sprintf("Hello, %v!", content["name"])), nil
}

// mcp-go on one processor: no sessions, arguments read from the map by hand, no checks against schemas.
package main

import (
	"context"
	"log"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"thruway.example/bench/contract"
)

func main() {
	options := contract.Start()
	mcpServer := newServer(options.Tools)
	if options.Stdio {
		if err := server.ServeStdio(mcpServer); err != nil {
			log.Fatal(err)
		}
		return
	}
	handler := server.NewStreamableHTTPServer(
		mcpServer,
		server.WithStateLess(true),
		server.WithDisableStreaming(true),
	)
	log.Fatal(contract.Serve(options.Address, handler))
}

func newServer(tools int) *server.MCPServer {
	mcpServer := server.NewMCPServer("bench", "1.0", server.WithToolCapabilities(false))
	message := mcp.WithString("message", mcp.Required())
	mcpServer.AddTool(mcp.NewTool("echo", mcp.WithDescription("Sends a message back"), message), echo)
	a, b := mcp.WithNumber("a", mcp.Required()), mcp.WithNumber("b", mcp.Required())
	mcpServer.AddTool(mcp.NewTool("add", mcp.WithDescription("Adds two numbers"), a, b), add)
	for n := 2; n < tools; n++ {
		tool := mcp.NewTool(contract.ToolName(n), mcp.WithDescription("Does nothing"), message)
		mcpServer.AddTool(tool, nothing)
	}
	return mcpServer
}

func echo(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	message, err := request.RequireString("message")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	return result(contract.EchoTool(contract.Echo{Message: message}))
}

func add(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	a, err := request.RequireFloat("a")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	b, err := request.RequireFloat("b")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	return result(contract.AddTool(contract.Add{A: a, B: b}))
}

func nothing(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText("nothing"), nil
}

func result(value any) (*mcp.CallToolResult, error) {
	bytes, err := contract.JSON(value)
	if err != nil {
		return nil, err
	}
	return mcp.NewToolResultStructured(bytes, string(bytes)), nil
}

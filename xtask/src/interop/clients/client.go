// net/http: a client with keep-alive that sends and receives all kinds of bodies. The only argument is the URL.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"sync"
	"time"
)

type client struct {
	http    http.Client
	address string
}

func newClient(address string, connections int) *client {
	transport := &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}
	return &client{http.Client{Transport: transport, Timeout: 10 * time.Second}, address}
}

// request sends a request and checks the body. It returns true if the connection had been used before.
func (c *client) request(method, target string, body io.Reader, fields http.Header, expected []byte) bool {
	request, err := http.NewRequest(method, c.address+target, body)
	check(err)
	for name, values := range fields {
		request.Header[name] = values
	}
	reused := false
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
	response, err := c.http.Do(request.WithContext(httptrace.WithClientTrace(request.Context(), trace)))
	check(err)
	content, err := io.ReadAll(response.Body)
	check(err)
	check(response.Body.Close())
	if response.StatusCode != 200 || !bytes.Equal(content, expected) {
		fail("%s %s: %s, %d bytes instead of %d", method, target, response.Status, len(content), len(expected))
	}
	return reused
}

func main() {
	hello := []byte("Hello, World!")
	content := []byte(strings.Repeat("another line\n", 20_000))
	one := newClient(os.Args[1], 1)
	one.http.Transport.(*http.Transport).ExpectContinueTimeout = 5 * time.Second
	expect := http.Header{"Expect": {"100-continue"}}
	// net/http sends a reader of unknown length in chunks.
	chunked := struct{ io.Reader }{bytes.NewReader(content)}
	one.request("GET", "/plaintext", nil, nil, hello)
	kept := one.request("HEAD", "/plaintext", nil, nil, nil)
	kept = one.request("POST", "/echo", bytes.NewReader(content), nil, content) && kept
	kept = one.request("POST", "/echo", chunked, nil, content) && kept
	kept = one.request("POST", "/echo", bytes.NewReader(content), expect, content) && kept
	kept = one.request("GET", "/download?bytes=1000000&chunked=1", nil, nil, bytes.Repeat([]byte("x"), 1_000_000)) && kept
	for range 100 {
		kept = one.request("GET", "/plaintext", nil, nil, hello) && kept
	}
	if !kept {
		fail("the connection was not reused")
	}

	many := newClient(os.Args[1], 10)
	var all sync.WaitGroup
	for range 50 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 20 {
				many.request("GET", "/plaintext", nil, nil, hello)
			}
		}()
	}
	all.Wait()
	fmt.Println("106 requests on one connection, 1000 on ten")
}

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func fail(format string, values ...any) {
	fmt.Printf(format+"\n", values...)
	os.Exit(1)
}

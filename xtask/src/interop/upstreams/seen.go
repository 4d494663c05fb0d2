// net/http: describes each request in the response and in a log. The only argument is the path of the log.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
)

// quoted returns a JSON string with one Latin-1 character for each byte.
func quoted(bytes string) string {
	var text strings.Builder
	for _, byte := range []byte(bytes) {
		fmt.Fprintf(&text, "\\u%04x", byte)
	}
	return `"` + text.String() + `"`
}

func main() {
	log, err := os.OpenFile(os.Args[1], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	var lock sync.Mutex
	tell := func(response http.ResponseWriter, request *http.Request) {
		content, err := io.ReadAll(request.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		line := fmt.Sprintf(`{"method":%s,"target":%s,"host":%s,"content":%s}`, quoted(request.Method),
			quoted(request.RequestURI), quoted(request.Host), quoted(string(content)))
		lock.Lock()
		fmt.Fprintln(log, line)
		lock.Unlock()
		response.Header().Set("Content-Length", strconv.Itoa(len(line)))
		if request.Method != "HEAD" {
			io.WriteString(response, line)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("listening on http://" + listener.Addr().String())
	server := http.Server{Handler: http.HandlerFunc(tell), DisableGeneralOptionsHandler: true}
	panic(server.Serve(listener))
}

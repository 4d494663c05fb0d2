// net/http on one processor.
package main

import (
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
	"runtime"
)

type greeting struct {
	Message string `json:"message"`
}

var (
	plaintext = []byte("Hello, World!")
	// Shared: values in a header map are slices, and a new slice per request would be garbage.
	server = []string{"net/http"}
	text   = []string{"text/plain"}
	length = []string{"13"}
)

func main() {
	address := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /plaintext", func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		header["Server"] = server
		header["Content-Type"] = text
		header["Content-Length"] = length
		_, _ = w.Write(plaintext)
	})
	mux.HandleFunc("GET /json", func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		header["Server"] = server
		header["Content-Type"] = []string{"application/json"}
		_ = json.NewEncoder(w).Encode(greeting{"Hello, World!"})
	})
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header["Server"] = server
		header["Content-Type"] = text
		_, _ = io.Copy(w, r.Body)
	})
	log.Fatal(http.ListenAndServe(*address, mux))
}

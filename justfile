# Development tasks. `just` lists all tasks.

_default:
    @just --list --unsorted

# Serve the demo on 127.0.0.1:8080, or run a config
serve *arguments:
    cargo run --release --package thruway -- serve {{ arguments }}

# Compile everything
build:
    cargo build --workspace --all-targets

# Run all tests, or the tests that match a filter, and do not stop at a failure
test *arguments:
    cargo test --no-fail-fast {{ arguments }}

# Format the code
format:
    cargo fmt

# Run the checks that must pass before a commit
lint:
    cargo fmt --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo xtask tidy

# Check dependencies for licenses, duplicate versions, banned crates and security advisories
deny:
    cargo deny check

# Build the documentation
doc *arguments:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps {{ arguments }}

# Run each fuzz target for the given number of seconds
fuzz seconds="10" *targets:
    cargo xtask fuzz --seconds {{ seconds }} {{ targets }}

# Test the server with curl, wrk, ab, h2load, slowhttptest, and clients in Python, Node and Go
interop *arguments:
    cargo xtask interop {{ arguments }}

# Load one server with `thruway bench`, wrk, ab and h2load in turn, and compare their counts
cross-check *arguments:
    cargo xtask bench cross-check {{ arguments }}

# Check the HTML reports of `thruway bench` in Chromium: phone and desktop width, light and dark mode
report-page *arguments:
    cargo xtask report-page {{ arguments }}

# Check the dashboard of the admin listener in Chromium: all views, phone and desktop width, light and dark mode
dashboard *arguments:
    cargo xtask dashboard {{ arguments }}

# Run the HTTP/2 conformance tests of h2spec against the server and the gateway
h2spec *arguments:
    cargo xtask h2spec {{ arguments }}

# Run the official MCP conformance suite against our server and client
conformance *arguments:
    cargo xtask conformance {{ arguments }}

# Compare the HTTP/1.1 parser with llhttp; needs a checkout of nodejs/llhttp
differential directory *arguments:
    cargo xtask differential {{ directory }} {{ arguments }}

# Compare the MCP types with the official schemas and examples
schema directory:
    cargo xtask schema {{ directory }}

# Build the peers, and measure Thruway and the peers
bench *arguments:
    cargo xtask bench {{ arguments }}

# Run continuous integration
ci:
    .ci/run

# What is done with this repository. `just` lists it; each recipe is one command that can be typed as well.

_default:
    @just --list --unsorted

# Serve the demo on 127.0.0.1:8080, or what a config says
serve *arguments:
    cargo run --release --package thruway -- serve {{ arguments }}

# Compile everything
build:
    cargo build --workspace --all-targets

# Run all tests, also after a failure; a filter may follow
test *arguments:
    cargo test --no-fail-fast {{ arguments }}

# Format the code
format:
    cargo fmt

# Everything that must be clean before a commit
lint:
    cargo fmt --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo xtask tidy

# Check licences, versions, bans and advisories
deny:
    cargo deny check

# Build the documentation
doc *arguments:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps {{ arguments }}

# Run each fuzz target, for so many seconds
fuzz seconds="10" *targets:
    cargo xtask fuzz --seconds {{ seconds }} {{ targets }}

# Let curl, wrk, ab, h2load, slowhttptest, Python, Node and Go talk to the server
interop *arguments:
    cargo xtask interop {{ arguments }}

# Let `thruway bench`, wrk, ab and h2load load the same server in turn, and compare what they count
cross-check *arguments:
    cargo xtask bench cross-check {{ arguments }}

# Open the pages of `thruway bench` in Chromium, as wide as a phone and as a window, in light and dark
report-page *arguments:
    cargo xtask report-page {{ arguments }}

# Run the conformance tests of HTTP/2 against the server and the gateway
h2spec *arguments:
    cargo xtask h2spec {{ arguments }}

# Run the official MCP conformance suite against our server and client
conformance *arguments:
    cargo xtask conformance {{ arguments }}

# Compare our verdicts with those of a checkout of nodejs/llhttp
differential directory *arguments:
    cargo xtask differential {{ directory }} {{ arguments }}

# Compare the types of the Model Context Protocol with its official schemas and examples
schema directory:
    cargo xtask schema {{ directory }}

# Build the peers and measure Thruway against them
bench *arguments:
    cargo xtask bench {{ arguments }}

# What continuous integration does
ci:
    .ci/run

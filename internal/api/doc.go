// Package api is the wire contract in Go: types and routes generated from
// openapi.yaml by `make generate`. Nothing here is written by hand.
package api
